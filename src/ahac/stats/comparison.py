"""Comparison of algorithms by all their runs: probability of improvement and performance profiles."""

from __future__ import annotations

import numpy as np

from ahac.stats.across_tasks import TaskScores, check_scores

__all__ = ["performance_profile", "probability_of_improvement"]


def probability_of_improvement(first: TaskScores, second: TaskScores) -> np.ndarray:
    """Return the probability that a run of the first algorithm beats one of the second, mean over tasks.

    On each task this is the Mann-Whitney statistic, U / (n m): the fraction of the n m pairs of runs in which the first
    has the higher score; equal scores count half.
    """
    if len(first) != len(second):
        raise ValueError(f"expected scores of the same tasks, got {len(first)} and {len(second)} tasks")
    check_scores(first)
    check_scores(second)
    tasks = []
    for x, y in zip(first, second, strict=True):
        left, right = np.asarray(x)[..., :, None], np.asarray(y)[..., None, :]
        tasks.append(((left > right) + 0.5 * (left == right)).mean(axis=(-2, -1)))
    return np.mean(tasks, axis=0)


def performance_profile(scores: TaskScores, thresholds: np.ndarray) -> np.ndarray:
    """Return the fraction of runs whose score exceeds each threshold, mean over tasks: `[..., thresholds]`."""
    check_scores(scores)
    return np.mean([(np.asarray(task)[..., None] > thresholds).mean(axis=-2) for task in scores], axis=0)
