"""The soft Heaviside function, eq:soft-heaviside: first-order gradients are unbiased, but have a high variance.

    H̄(x) = −1, 2x/ν, 1    for x below, within, above ± ν/2            a = θ + w,  w ~ N(0, σ²)

With M(c) = E[max(a − c, 0)] = (θ − c) Φ((θ − c)/σ) + σ φ((θ − c)/σ):

    E[H̄(a)]     = 2/ν ( M(−ν/2) − M(ν/2) ) − 1
    ∇_θ E[H̄(a)] = 1/ν ( erf((ν − 2θ) / (2√2 σ)) + erf((ν + 2θ) / (2√2 σ)) )

The paper's appendix prints additional terms, and ν instead of σ inside its erfc; the above are the exact integrals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from ahac.core.checks import check_int, check_non_empty, check_positive
from ahac.core.config import to_dict
from ahac.gradients.progress import Track, silent
from ahac.gradients.study import Study

__all__ = ["HeavisideSettings", "expectation", "gradient", "informative_share", "slope", "soft_heaviside", "study"]

KIND = "heaviside"
SIZES = 60
"""Number of sample sizes at which the error is computed, evenly spaced on a logarithmic axis."""


@dataclass(frozen=True, kw_only=True)
class HeavisideSettings:
    """Settings of the study of the soft Heaviside function."""

    width: float = 0.005
    """Width ν of the ramp in the main figure."""
    sigma: float = 0.1
    """Standard deviation σ of the policy's noise in the main figure."""
    widths: tuple[float, ...] = (0.005, 0.02, 0.1, 0.5)
    """Widths ν whose sample errors are compared, at the given sigma."""
    sigmas: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4)
    """Standard deviations σ whose sample errors are compared, at the given width."""
    samples: int = 1000
    """Largest sample size N."""
    points: int = 400
    """Number of values of θ in [−1, 1] over which errors are averaged."""
    seed: int = 0
    """Random seed of the noise."""

    def __post_init__(self) -> None:
        for name in ("width", "sigma"):
            check_positive(name, getattr(self, name))
        for name in ("widths", "sigmas"):
            for value in check_non_empty(name, getattr(self, name)):
                check_positive(name, value)
        check_int("samples", self.samples, 1)
        check_int("points", self.points, 2)
        check_int("seed", self.seed, 0)


def soft_heaviside(x: np.ndarray, width: float) -> np.ndarray:
    """Return H̄(x)."""
    return np.clip(2.0 * x / width, -1.0, 1.0)


def slope(x: np.ndarray, width: float) -> np.ndarray:
    """Return the derivative of H̄, the value of a first-order sample: 2/ν on the ramp, zero elsewhere."""
    return np.where(np.abs(x) <= 0.5 * width, 2.0 / width, 0.0)


def expectation(theta: np.ndarray, width: float, sigma: float) -> np.ndarray:
    """Return E[H̄(θ + w)]."""

    def above(bound: float) -> np.ndarray:
        z = (theta - bound) / sigma
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        return sigma * (z * 0.5 * (1.0 + _erf(z / math.sqrt(2.0))) + density)

    return 2.0 / width * (above(-0.5 * width) - above(0.5 * width)) - 1.0


def gradient(theta: np.ndarray, width: float, sigma: float) -> np.ndarray:
    """Return the exact gradient ∇_θ E[H̄(θ + w)]."""
    scale = 2.0 * math.sqrt(2.0) * sigma
    return (_erf((width - 2.0 * theta) / scale) + _erf((width + 2.0 * theta) / scale)) / width


def informative_share(theta: float, width: float, sigma: float) -> float:
    """Return the fraction of samples on the ramp; all others have a first-order gradient of zero."""
    return float(gradient(np.array(theta), width, sigma)) * 0.5 * width


def study(settings: HeavisideSettings | None = None, track: Track = silent) -> Study:
    """Compute both gradient estimates and their errors.

    Returns:
        theta [P]; for `width` and `sigma`: function, expectation, gradient, and the estimates first and zeroth from all
        N samples, each [P]; sample sizes [K], and the mean over theta of |estimate − gradient| at each size:
        first_error, zeroth_error [K] for `width` and `sigma`, first_by_width, zeroth_by_width [W, K], first_by_sigma,
        zeroth_by_sigma [S, K].
    """
    c = settings or HeavisideSettings()
    theta = np.linspace(-1.0, 1.0, c.points)
    sizes = np.unique(np.geomspace(1, c.samples, SIZES).round().astype(int))
    first, zeroth = _estimates(theta, c.width, c.sigma, sizes, c.seed)
    arrays = {
        "theta": theta,
        "sizes": sizes,
        "function": soft_heaviside(theta, c.width),
        "expectation": expectation(theta, c.width, c.sigma),
        "gradient": gradient(theta, c.width, c.sigma),
        "first": first[-1],
        "zeroth": zeroth[-1],
    }
    for name, estimates in (("first", first), ("zeroth", zeroth)):
        arrays[f"{name}_error"] = np.abs(estimates - arrays["gradient"]).mean(axis=1)
    sweeps = {"width": [(w, c.sigma) for w in c.widths], "sigma": [(c.width, s) for s in c.sigmas]}
    for name, pairs in sweeps.items():
        rows = []
        for width, sigma in track(pairs, f"soft Heaviside by {name}"):
            exact = gradient(theta, width, sigma)
            both = _estimates(theta, width, sigma, sizes, c.seed)
            rows.append([np.abs(estimates - exact).mean(axis=1) for estimates in both])
        arrays[f"first_by_{name}"], arrays[f"zeroth_by_{name}"] = np.array(rows).swapaxes(0, 1)
    return Study(KIND, to_dict(c), arrays)


def _estimates(
    theta: np.ndarray, width: float, sigma: float, sizes: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first- and zeroth-order estimates [K, P] from the first n samples, for every n in `sizes`."""
    base = soft_heaviside(theta, width)[:, None]
    totals = np.zeros((2, len(theta)))
    estimates = []
    for noise, size in zip(_noise(len(theta), sigma, sizes, seed), sizes, strict=True):
        a = theta[:, None] + noise
        totals[0] += slope(a, width).sum(axis=1)
        totals[1] += ((soft_heaviside(a, width) - base) * noise).sum(axis=1) / sigma**2
        estimates.append(totals / size)
    first, zeroth = np.array(estimates).swapaxes(0, 1)
    return first, zeroth


def _noise(points: int, sigma: float, sizes: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """Yield the additional samples of each size over the previous one, [P, more]."""
    rng = np.random.default_rng(seed)
    for more in np.diff(sizes, prepend=0):
        yield sigma * rng.standard_normal((points, more))


def _erf(x: np.ndarray) -> np.ndarray:
    return torch.special.erf(torch.from_numpy(np.asarray(x, dtype=np.float64))).numpy()
