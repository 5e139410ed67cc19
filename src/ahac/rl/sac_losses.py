"""Targets, losses and value expansion of soft actor-critic methods, as pure functions."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["soft_target", "temperature_loss", "twin_loss", "value_expansion"]


def soft_target(
    reward: Tensor, terminated: Tensor, next_q: Tensor, next_log_prob: Tensor, alpha: Tensor, gamma: float
) -> Tensor:
    """Return [B] y = r + γ (1 − terminated) ( min Q'(s', a') − α log π(a' | s') ); time-outs do not terminate."""
    return reward + gamma * (1.0 - terminated) * (next_q - alpha * next_log_prob)


def twin_loss(q: Tensor, target: Tensor) -> Tensor:
    """Return ½ Σ over members of mean (Q − y)²; each member's gradient is independent of the others."""
    return 0.5 * (q - target).square().mean(dim=-1).sum()


def temperature_loss(log_alpha: Tensor, log_prob: Tensor, target_entropy: float) -> Tensor:
    """Return −log α · mean( log π + H̄ ): α rises while the policy's entropy is below H̄, and falls above it."""
    return -log_alpha * (log_prob.detach() + target_entropy).mean()


def value_expansion(
    reward: Tensor, log_prob: Tensor, valid: Tensor, last_q: Tensor, alpha: Tensor, gamma: float
) -> Tensor:
    """Return the [B] soft value of the first state of a model's trajectory:

        Σ_{t<H} γᵗ S_t ( r_t − α log π_t ) + γᴴ S_H ( Q(s_H, a_H) − α log π_H ),        S_t = Π_{k<t} c_k

    Args:
        reward: [H, B] r_t, predicted by the model.
        log_prob: [H + 1, B] log π(a_t | s_t).
        valid: [H, B] c_t, the probability that the task does not terminate the episode with this step.
        last_q: [B] Q(s_H, a_H).
        alpha: Temperature α.
        gamma: Discount factor γ.
    """
    total = torch.zeros_like(last_q)
    weight = torch.ones_like(last_q)
    for r, log_pi, continuation in zip(reward, log_prob[:-1], valid, strict=True):
        total = total + weight * (r - alpha * log_pi)
        weight = gamma * weight * continuation
    return total + weight * (last_q - alpha * log_prob[-1])
