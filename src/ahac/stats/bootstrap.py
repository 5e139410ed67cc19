"""Percentile bootstrap: stratified over tasks, and of curves over runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ahac.stats.across_tasks import TaskScores, check_scores, interquartile_mean

__all__ = ["curve_band", "resample_runs", "stratified_interval"]

RESAMPLES = 2000
"""Default number of bootstrap samples of an interval."""
CURVE_RESAMPLES = 1000
"""The same for a band, which has an interval at each of its points."""


def resample_runs(scores: TaskScores, rng: np.random.Generator, resamples: int = RESAMPLES) -> list[np.ndarray]:
    """Return bootstrap samples `[resamples, runs]` of each task: runs are drawn with replacement within their task."""
    return [np.asarray(task)[rng.integers(0, len(task), (resamples, len(task)))] for task in scores]


def stratified_interval(
    statistic: Callable[..., np.ndarray],
    *samples: TaskScores,
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the stratified percentile bootstrap interval of a statistic.

    Tasks are fixed and runs are drawn anew, for each of the samples independently. The interval is NaN if no task has
    two runs, since a single run says nothing about others.

    Args:
        statistic: Function of as many arguments as there are samples, over arrays `[resamples, runs]` per task, that
            returns `[resamples, ...]`; those of `ahac.stats.across_tasks` and `ahac.stats.comparison` do.
        samples: Scores `[runs]` per task: of one algorithm, or of several to be compared.
        rng: Generator of the bootstrap samples.
        confidence: Confidence of the interval.
        resamples: Number of bootstrap samples.
    """
    for scores in samples:
        check_scores(scores)
    values = statistic(*(resample_runs(scores, rng, resamples) for scores in samples))
    low, high = _percentiles(values, confidence, axis=0)
    if all(len(task) == 1 for scores in samples for task in scores):
        return np.full_like(low, np.nan), np.full_like(high, np.nan)
    return low, high


def curve_band(
    curves: np.ndarray, rng: np.random.Generator, confidence: float = 0.95, resamples: int = CURVE_RESAMPLES
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends `[points]` of bootstrap intervals of the interquartile mean over runs of `curves` [runs, points].

    All points of a bootstrap sample have the same runs. NaN for a single run.
    """
    runs, points = curves.shape
    if runs < 2:
        return np.full(points, np.nan), np.full(points, np.nan)
    drawn = curves.T[:, rng.integers(0, runs, (resamples, runs))]
    return _percentiles(interquartile_mean([drawn]), confidence, axis=1)


def _percentiles(values: np.ndarray, confidence: float, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the central interval that holds a fraction of the values."""
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(values, [tail, 100.0 - tail], axis=axis)
    return low, high
