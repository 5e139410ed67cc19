"""Returns of trajectories, time first: pure functions of [T, N] tensors.

A trajectory is cut where an episode ended or the rollout stopped; what follows a cut belongs to another one.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["segment_discounts", "td_lambda"]


def td_lambda(reward: Tensor, next_value: Tensor, cut: Tensor, gamma: float, lambda_: float) -> Tensor:
    """TD(λ) value targets [T, N], worked backwards from the last step, V̂ of the paper:

    G_t = r_t + γ [ (1 − λ) V_{t+1} + λ G_{t+1} ],        G_t = r_t + γ V_{t+1} where cut.
    """
    weight = torch.full_like(reward, gamma * lambda_).masked_fill_(cut, 0.0)
    weight[-1] = 0.0
    at_once = torch.addcmul(reward, next_value, gamma - weight)
    targets = torch.empty_like(reward)
    tail = next_value[-1]
    for t in reversed(range(len(reward))):
        tail = torch.addcmul(at_once[t], weight[t], tail, out=targets[t])
    return targets


def segment_discounts(cut: Tensor, gamma: float, dtype: torch.dtype) -> Tensor:
    """[T, N] γ to the number of steps since the last cut: the weight of each reward in its segment's return."""
    weights = torch.ones(cut.shape, dtype=dtype, device=cut.device)
    # After a cut 1 + 0 w, else 0 + γ w: one operation per step, and exact.
    begins = cut.to(dtype)
    factors = torch.full_like(weights, gamma).masked_fill_(cut, 0.0)
    for t in range(len(cut) - 1):
        torch.addcmul(begins[t], weights[t], factors[t], out=weights[t + 1])
    return weights
