"""Densities of Gaussian policies, plain and squashed, as functions of means and log standard deviations."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["LOG_SQRT_2PI", "entropy", "kl", "log_prob", "squashed_log_prob"]

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def log_prob(x: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """[B] log N(x; μ, σ) of independent entries:

    Σ_i −½ ((x_i − μ_i) / σ_i)² − log σ_i − ½ log 2π
    """
    z = (x - mean) * torch.exp(-log_std)
    return (-0.5 * z.square() - log_std - LOG_SQRT_2PI).sum(dim=-1)


def squashed_log_prob(x: Tensor, noise: Tensor, log_std: Tensor) -> Tensor:
    """[B] log density of a = tanh(x), where x = μ + σ ε:

    Σ_i −½ ε_i² − log σ_i − ½ log 2π − log(1 − tanh² x_i),        log(1 − tanh² x) = 2 (log 2 − x − softplus(−2x))
    """
    log_slope = 2.0 * (math.log(2.0) - x - functional.softplus(-2.0 * x))
    return (-0.5 * noise.square() - log_std - LOG_SQRT_2PI - log_slope).sum(dim=-1)


def kl(mean: Tensor, log_std: Tensor, other_mean: Tensor, other_log_std: Tensor) -> Tensor:
    """[B] KL(first ‖ other) between diagonal Gaussians:

    Σ_i log(σ'_i / σ_i) + (σ_i² + (μ_i − μ'_i)²) / (2 σ'_i²) − ½
    """
    second_moment = torch.exp(2.0 * log_std) + (mean - other_mean).square()
    return (other_log_std - log_std + 0.5 * second_moment * torch.exp(-2.0 * other_log_std) - 0.5).sum(dim=-1)


def entropy(log_std: Tensor) -> Tensor:
    """[...] entropy of a diagonal Gaussian: Σ_i log σ_i + ½ (1 + log 2π)."""
    return (log_std + 0.5 + LOG_SQRT_2PI).sum(dim=-1)
