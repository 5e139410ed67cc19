"""Two ways to estimate the gradient of an expected return from N samples, and how far each can be trusted.

    J(θ) = E[ R ],   a ~ π_θ

    first order     ∇^[1] = 1/N Σ ∇_θ R_i                       through the simulator: equation 3
    zeroth order    ∇^[0] = 1/N Σ (R_i − b_i) ∇_θ log π_θ       from returns alone: equation 2

with b the return of the policy without noise. Samples are [N, d], a gradient each; estimates are their means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from ahac.core.errors import InputError
from ahac.rl.diagnostics import esnr

__all__ = ["Agreement", "Estimate", "agreement", "estimate", "gaussian_scores", "zeroth_order"]


@dataclass(frozen=True, eq=False)
class Estimate:
    """What N samples of a gradient say."""

    mean: Tensor
    """[d] the estimate."""
    variance: float
    """Of one sample, summed over the d components."""
    esnr: float
    """Expected signal-to-noise ratio, eq:esnr. Of N samples of pure noise it is about 1/N, not zero."""
    samples: int

    @property
    def standard_error(self) -> float:
        """How far the mean is from the true gradient as a rule: √(variance / N)."""
        return math.sqrt(self.variance / self.samples)


@dataclass(frozen=True)
class Agreement:
    """How two estimates of the same gradient compare."""

    error: float
    """‖∇^[1] − ∇^[0]‖, the paper's sample error B."""
    expected: float
    """What chance alone would make of that, were the two independent: both standard errors, as √(a² + b²)."""
    cosine: float
    """Of the angle between them; zero where one of them is zero."""


def estimate(samples: Tensor) -> Estimate:
    """Of [N, d] samples, two at least."""
    if samples.ndim != 2 or len(samples) < 2:
        raise InputError(f"samples of a gradient are [N, d] with N of at least 2, got {list(samples.shape)}")
    variance = float(samples.var(dim=0, correction=1).sum())
    return Estimate(samples.mean(dim=0), variance, esnr(samples).item(), len(samples))


def zeroth_order(returns: Tensor, baseline: Tensor | float, scores: Tensor) -> Tensor:
    """[N, d] samples (R − b) ∇_θ log π, from returns [N], their baseline and scores [N, d]."""
    return (returns - baseline)[:, None] * scores


def gaussian_scores(noise: Tensor, sigma: float) -> Tensor:
    """[N, d] ∇_θ log π of the additive policy a = θ + w, w ~ N(0, σ²): w / σ²."""
    return noise / sigma**2


def agreement(first: Estimate, zeroth: Estimate) -> Agreement:
    """Of the two estimates of one gradient."""
    a, b = first.mean, zeroth.mean
    norms = float(a.norm() * b.norm())
    return Agreement(
        error=float((a - b).norm()),
        expected=math.hypot(first.standard_error, zeroth.standard_error),
        cosine=float(a @ b) / norms if norms > 0.0 else 0.0,
    )
