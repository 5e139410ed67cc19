"""First- and zeroth-order estimates of the gradient of an expected return from N samples, and their statistics.

    J(θ) = E[ R ],   a ~ π_θ

    first order     ∇^[1] = 1/N Σ ∇_θ R_i                       through the simulator (equation 3)
    zeroth order    ∇^[0] = 1/N Σ (R_i − b_i) ∇_θ log π_θ       from returns alone (equation 2)

where b is the return of the noise-free policy. Samples are [N, d], one gradient per row; estimates are their means.
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
    """Mean and statistics of N samples of a gradient."""

    mean: Tensor
    """[d] gradient estimate."""
    variance: float
    """Variance of one sample, summed over the d components."""
    esnr: float
    """Expected signal-to-noise ratio, eq:esnr; for N samples of pure noise it is about 1/N, not zero."""
    samples: int
    """Number of samples N."""

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, √(variance / N)."""
        return math.sqrt(self.variance / self.samples)


@dataclass(frozen=True)
class Agreement:
    """Comparison of two estimates of the same gradient."""

    error: float
    """‖∇^[1] − ∇^[0]‖, the paper's sample error B."""
    expected: float
    """Error expected from sampling noise alone if both were independent: √(a² + b²) of the standard errors."""
    cosine: float
    """Cosine of the angle between them; zero if one of them is zero."""


def estimate(samples: Tensor) -> Estimate:
    """Estimate a gradient from samples [N, d], N ≥ 2."""
    if samples.ndim != 2 or len(samples) < 2:
        raise InputError(f"samples of a gradient must be [N, d] with N of at least 2, got {list(samples.shape)}")
    variance = float(samples.var(dim=0, correction=1).sum())
    return Estimate(samples.mean(dim=0), variance, esnr(samples).item(), len(samples))


def zeroth_order(returns: Tensor, baseline: Tensor | float, scores: Tensor) -> Tensor:
    """Return samples (R − b) ∇_θ log π [N, d] from returns [N], their baseline and scores [N, d]."""
    return (returns - baseline)[:, None] * scores


def gaussian_scores(noise: Tensor, sigma: float) -> Tensor:
    """Return the scores ∇_θ log π = w / σ² [N, d] of the additive policy a = θ + w, w ~ N(0, σ²)."""
    return noise / sigma**2


def agreement(first: Estimate, zeroth: Estimate) -> Agreement:
    """Compare two estimates of one gradient."""
    a, b = first.mean, zeroth.mean
    norms = float(a.norm() * b.norm())
    return Agreement(
        error=float((a - b).norm()),
        expected=math.hypot(first.standard_error, zeroth.standard_error),
        cosine=float(a @ b) / norms if norms > 0.0 else 0.0,
    )
