"""What PPO minimises, and how its learning rate follows the policy's change: pure functions."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["adapted_rate", "bounds_loss", "clipped_surrogate", "clipped_value_loss"]

BOUND = 1.1
"""Means beyond this are pulled back: actions are clipped at 1, and nothing else would stop them."""
FASTER = 1.5
"""By which the learning rate is multiplied or divided."""


def clipped_surrogate(log_ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """−mean of min( ρ A, clip(ρ, 1 − ε, 1 + ε) A ), with ρ = exp(log π_new − log π_old)."""
    ratio = log_ratio.exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage).mean()


def clipped_value_loss(value: Tensor, old: Tensor, target: Tensor, clip: float | None) -> Tensor:
    """½ mean of max( (V − G)², (V_clipped − G)² ), where V_clipped is within ± clip of what V was; or of (V − G)²."""
    error = (value - target).square()
    if clip is not None:
        held = old + (value - old).clamp(-clip, clip)
        error = torch.maximum(error, (held - target).square())
    return 0.5 * error.mean()


def bounds_loss(mean: Tensor) -> Tensor:
    """Mean of Σ_i max(|μ_i| − 1.1, 0)²."""
    return (mean.abs() - BOUND).clamp(min=0.0).square().sum(dim=-1).mean()


def adapted_rate(rate: Tensor, kl: Tensor, wanted: float, bounds: tuple[float, float]) -> Tensor:
    """Lower where the policy changed by more than twice what is wanted, higher where by less than half of it.

    On the device: nobody waits to look at the divergence.
    """
    slower = torch.where(kl > 2.0 * wanted, rate / FASTER, rate)
    return torch.where(kl < 0.5 * wanted, slower * FASTER, slower).clamp(*bounds)
