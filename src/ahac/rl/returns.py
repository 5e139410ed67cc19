"""Returns of trajectories: pure functions of [T, N] tensors.

A trajectory is cut where its episode or the rollout ends; the steps after a cut belong to another trajectory.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["segment_discounts", "td_lambda", "weighted_advantages"]


def td_lambda(reward: Tensor, next_value: Tensor, cut: Tensor, gamma: float, lambda_: float) -> Tensor:
    """Return [T, N] TD(λ) value targets, V̂ of the paper, computed backward from the last step:

    G_t = r_t + γ [ (1 − λ) V_{t+1} + λ G_{t+1} ],        G_t = r_t + γ V_{t+1} where cut.
    """
    weight = torch.full_like(reward, gamma * lambda_).masked_fill_(cut, 0.0)
    weight[-1] = 0.0
    one_step = torch.addcmul(reward, next_value, gamma - weight)
    targets = torch.empty_like(reward)
    tail = next_value[-1]
    for t in reversed(range(len(reward))):
        tail = torch.addcmul(one_step[t], weight[t], tail, out=targets[t])
    return targets


def segment_discounts(cut: Tensor, gamma: float, dtype: torch.dtype) -> Tensor:
    """Return [T, N] γᵏ, k steps after the last cut: the weight of each reward in its segment's return."""
    weights = torch.ones(cut.shape, dtype=dtype, device=cut.device)
    # One exact operation per step: 1 + 0 w after a cut, 0 + γ w otherwise.
    starts = cut.to(dtype)
    factors = torch.full_like(weights, gamma).masked_fill_(cut, 0.0)
    for t in range(len(cut) - 1):
        torch.addcmul(starts[t], weights[t], factors[t], out=weights[t + 1])
    return weights


def weighted_advantages(targets: Tensor, value: Tensor, cut: Tensor, gamma: float) -> Tensor:
    """Return [T, N] γᵏ (G_t − V(s_t)) / (T N): advantages, times the weight of each step in the actor's objective."""
    return segment_discounts(cut, gamma, targets.dtype) * (targets - value) / targets.numel()
