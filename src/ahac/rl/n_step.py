"""n-step returns of sequences from a replay buffer."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["n_step_return"]


def n_step_return(reward: Tensor, terminated: Tensor, done: Tensor, gamma: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the discounted rewards of the first n steps, the discount of the value after them, and the last step.

        R = Σ_{t <= l} γᵗ r_t,        γˡ⁺¹ (1 − terminated_l)

    The last step l is n − 1, or the one that ends the episode; a time-out is followed by a value.

    Args:
        reward: [n, B] rewards of consecutive steps, which may span several episodes.
        terminated: [n, B] 1 where the task ended the episode, otherwise 0.
        done: [n, B] 1 where the episode ended, also at a time limit, otherwise 0.
        gamma: Discount factor γ.

    Returns:
        [B] R, [B] discounts, [B] indices l.
    """
    running = torch.ones_like(reward[0])
    total, discount, last = torch.zeros_like(running), torch.ones_like(running), -torch.ones_like(running)
    for r, ends in zip(reward, done, strict=True):
        total = total + running * discount * r
        discount = torch.where(running > 0.0, gamma * discount, discount)
        last = last + running
        running = running * (1.0 - ends)
    index = last.long()
    return total, discount * (1.0 - terminated.gather(0, index[None])[0]), index
