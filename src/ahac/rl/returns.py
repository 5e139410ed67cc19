"""Returns of trajectories, time first: pure functions of [T, N] tensors.

A trajectory is cut where an episode ended or the rollout stopped; what follows a cut belongs to another one.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["segment_discounts", "td_lambda"]


def td_lambda(reward: Tensor, next_value: Tensor, cut: Tensor, gamma: float, lam: float) -> Tensor:
    """TD(λ) value targets [T, N], worked backwards from the last step, V̂ of the paper:

    G_t = r_t + γ [ (1 − λ) V_{t+1} + λ G_{t+1} ],        G_t = r_t + γ V_{t+1} where cut.
    """
    targets = torch.empty_like(reward)
    tail = next_value[-1]
    weight = torch.full_like(reward, lam).masked_fill(cut, 0.0)
    for t in reversed(range(len(reward))):
        tail = torch.addcmul(reward[t], torch.lerp(next_value[t], tail, weight[t]), torch.full_like(tail, gamma))
        targets[t] = tail
    return targets


def segment_discounts(cut: Tensor, gamma: float, dtype: torch.dtype) -> Tensor:
    """[T, N] γ to the number of steps since the last cut: the weight of each reward in its segment's return."""
    weights = torch.empty(cut.shape, dtype=dtype, device=cut.device)
    weight = torch.ones(cut.shape[1:], dtype=dtype, device=cut.device)
    for t in range(len(cut)):
        weights[t] = weight
        weight = torch.where(cut[t], 1.0, weight * gamma).to(dtype)
    return weights
