"""Aggregates of scores and their confidence intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ahac.stats.across_tasks import interquartile_mean

__all__ = ["bootstrap_interval", "iqm"]

Scores = np.ndarray
"""One-dimensional array of scores."""


def iqm(scores: Scores) -> float:
    """Return the interquartile mean: the mean of the middle half of the scores, with fractional edge weights."""
    if len(scores) == 0:
        raise ValueError("the interquartile mean of no scores is not defined")
    return float(interquartile_mean([scores]))


def bootstrap_interval(
    scores: Scores,
    rng: np.random.Generator,
    statistic: Callable[[Scores], float] = iqm,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a statistic.

    Args:
        scores: Scores, one per run or episode.
        rng: Random generator of the resampling.
        statistic: Function of an array of scores; the interquartile mean by default.
        confidence: Probability that the interval covers.
        resamples: Number of bootstrap samples.
    """
    indices = rng.integers(0, len(scores), (resamples, len(scores)))
    values = np.array([statistic(np.asarray(scores)[row]) for row in indices])
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(values, [tail, 100.0 - tail])
    return float(low), float(high)
