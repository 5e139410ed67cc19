"""What PPO minimises, and how its learning rate follows the policy's change: pure functions."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["action_bound_loss", "adaptive_learning_rate", "clipped_surrogate", "clipped_value_loss"]

BOUND = 1.1
"""Means beyond this are pulled back: actions are clipped at 1, and nothing else would stop them."""
FASTER = 1.5
"""By which the learning rate is multiplied or divided."""


def clipped_surrogate(log_ratio: Tensor, advantage: Tensor, clip_range: float) -> Tensor:
    """−mean of min( ρ A, clip(ρ, 1 − ε, 1 + ε) A ), with ρ = exp(log π_new − log π_old)."""
    ratio = log_ratio.exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip_range, 1.0 + clip_range) * advantage).mean()


def clipped_value_loss(value: Tensor, old: Tensor, target: Tensor, clip_range: float | None) -> Tensor:
    """½ mean of max( (V − G)², (V_clipped − G)² ), where V_clipped is within ± clip of what V was; or of (V − G)²."""
    error = (value - target).square()
    if clip_range is not None:
        held = old + (value - old).clamp(-clip_range, clip_range)
        error = torch.maximum(error, (held - target).square())
    return 0.5 * error.mean()


def action_bound_loss(mean: Tensor) -> Tensor:
    """Mean of Σ_i max(|μ_i| − 1.1, 0)²."""
    return (mean.abs() - BOUND).clamp(min=0.0).square().sum(dim=-1).mean()


def adaptive_learning_rate(learning_rate: Tensor, kl: Tensor, target_kl: float, bounds: tuple[float, float]) -> Tensor:
    """Lower where the policy changed by more than twice what is wanted, higher where by less than half of it.

    On the device: nobody waits to look at the divergence.
    """
    slower = torch.where(kl > 2.0 * target_kl, learning_rate / FASTER, learning_rate)
    return torch.where(kl < 0.5 * target_kl, slower * FASTER, slower).clamp(*bounds)
