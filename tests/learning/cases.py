"""Training cases: what is measured after training with a seed, and its limits.

Limits are statements about all seeds and all machines, so each of them lies at least four robust standard deviations
away from what was measured over many seeds and roundings; `README.md` has the numbers, `spread.py` measures them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

Measured = Mapping[str, float]
"""Positive numbers by name; they are compared as logarithms."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Bounds of one measured number, at least one of them."""

    below: float | None = None
    above: float | None = None


@dataclass(frozen=True, kw_only=True)
class Case:
    """One algorithm on one toy."""

    train: Callable[[int], Measured]
    """Trains with a seed, and measures."""
    limits: Mapping[str, Limit]
    """Limits by the name of the measured number."""
    seeds: int = 1
    """Number of seeds that the test trains, starting at 0; their median must be within the limits."""
    compiled: bool = True
    """Whether it uses compiled kernels of this project; otherwise only torch's rounding matters."""


def check(case: Case) -> None:
    """Train, and compare the results with the limits."""
    runs = [case.train(seed) for seed in range(case.seeds)]
    for name, limit in case.limits.items():
        actual = median(run[name] for run in runs)
        values = ", ".join(f"{run[name]:.4g}" for run in runs)
        if limit.below is not None:
            assert actual < limit.below, f"{name} is {values} after training; expected below {limit.below:g}"
        if limit.above is not None:
            assert actual > limit.above, f"{name} is {values} after training; expected above {limit.above:g}"
