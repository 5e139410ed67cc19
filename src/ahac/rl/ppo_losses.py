"""Losses of PPO and its adaptive learning rate, as pure functions."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["action_bound_loss", "adaptive_learning_rate", "clipped_surrogate", "clipped_value_loss"]

BOUND = 1.1
"""Action means are penalized beyond this magnitude: actions are clipped at 1, so nothing else limits their means."""
RATE_FACTOR = 1.5
"""Factor by which the learning rate is multiplied or divided."""


def clipped_surrogate(log_ratio: Tensor, advantage: Tensor, clip_range: float) -> Tensor:
    """Return −mean of min( ρ A, clip(ρ, 1 − ε, 1 + ε) A ), with ρ = exp(log π_new − log π_old)."""
    ratio = log_ratio.exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip_range, 1.0 + clip_range) * advantage).mean()


def clipped_value_loss(value: Tensor, old: Tensor, target: Tensor, clip_range: float | None) -> Tensor:
    """Return ½ mean of max( (V − G)², (V_clipped − G)² ), with V_clipped within ± `clip_range` of the old value.

    Without a clip range, return ½ mean of (V − G)².
    """
    error = (value - target).square()
    if clip_range is not None:
        clipped = old + (value - old).clamp(-clip_range, clip_range)
        error = torch.maximum(error, (clipped - target).square())
    return 0.5 * error.mean()


def action_bound_loss(mean: Tensor) -> Tensor:
    """Return the mean of Σ_i max(|μ_i| − 1.1, 0)²."""
    return (mean.abs() - BOUND).clamp(min=0.0).square().sum(dim=-1).mean()


def adaptive_learning_rate(learning_rate: Tensor, kl: Tensor, target_kl: float, bounds: tuple[float, float]) -> Tensor:
    """Lower the learning rate if the KL divergence is above twice its target, raise it if below half of it.

    Computed on the device, so that the host need not wait for the divergence.
    """
    lowered = torch.where(kl > 2.0 * target_kl, learning_rate / RATE_FACTOR, learning_rate)
    return torch.where(kl < 0.5 * target_kl, lowered * RATE_FACTOR, lowered).clamp(*bounds)
