"""Generalized advantage estimation, a pure function of [T, N] tensors."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["gae"]


def gae(reward: Tensor, value: Tensor, next_value: Tensor, cut: Tensor, gamma: float, gae_lambda: float) -> Tensor:
    """Return [T, N] advantages, computed backward from the last step:

        δ_t = r_t + γ V(s_{t+1}) − V(s_t),        A_t = δ_t + γ λ A_{t+1},        A_t = δ_t where cut.

    Args:
        reward: [T, N] r_t.
        value: [T, N] V(s_t).
        next_value: [T, N] V(s_{t+1}) of the state reached, before any reset: zero where the task terminated the
            episode, the critic's value where the episode timed out.
        cut: [T, N] bool, whether the episode ended with this step, terminated or timed out.
        gamma: Discount factor γ.
        gae_lambda: λ.
    """
    delta = torch.add(reward - value, next_value, alpha=gamma)
    weight = torch.full_like(reward, gamma * gae_lambda).masked_fill(cut, 0.0)
    weight[-1] = 0.0
    advantage = torch.empty_like(reward)
    tail = torch.zeros_like(reward[0])
    for t in reversed(range(len(reward))):
        tail = torch.addcmul(delta[t], weight[t], tail, out=advantage[t])
    return advantage
