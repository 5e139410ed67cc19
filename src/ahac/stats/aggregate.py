"""Aggregates of scores and their confidence intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["bootstrap_interval", "iqm"]

Scores = np.ndarray
"""One-dimensional array of scores."""


def iqm(scores: Scores) -> float:
    """Return the interquartile mean: the mean of the middle half of the scores, with fractional edge weights."""
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    n = len(ordered)
    if n == 0:
        raise ValueError("the interquartile mean of no scores is not defined")
    # Score k covers [k, k + 1) of n; its weight is the overlap with the middle half.
    edges = np.arange(n)
    weight = np.clip(np.minimum(edges + 1, 0.75 * n) - np.maximum(edges, 0.25 * n), 0.0, 1.0)
    return float((ordered * weight).sum() / weight.sum())


def bootstrap_interval(
    scores: Scores,
    rng: np.random.Generator,
    statistic: Callable[[Scores], float] = iqm,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a statistic."""
    indices = rng.integers(0, len(scores), (resamples, len(scores)))
    values = np.array([statistic(np.asarray(scores)[row]) for row in indices])
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(values, [tail, 100.0 - tail])
    return float(low), float(high)
