"""Everything that is trained in tests: what is measured after training with a seed, and which limits hold.

Limits are statements about all seeds and all machines, so each of them lies at least four robust standard deviations
away from what was measured over many seeds and roundings; `README.md` has the figures, `spread.py` measures them again.
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
    """By the names of what is measured."""
    seeds: int = 1
    """How many are trained by the test, from 0 on; the median over them keeps to the limits."""
    compiled: bool = True
    """Whether anything of it runs in our own kernels; else only torch's rounding matters."""


def check(case: Case) -> None:
    """Train, and compare with the limits."""
    runs = [case.train(seed) for seed in range(case.seeds)]
    for name, limit in case.limits.items():
        found = median(run[name] for run in runs)
        values = ", ".join(f"{run[name]:.4g}" for run in runs)
        if limit.below is not None:
            assert found < limit.below, f"{name} is {values} after training; wanted below {limit.below:g}"
        if limit.above is not None:
            assert found > limit.above, f"{name} is {values} after training; wanted above {limit.above:g}"
