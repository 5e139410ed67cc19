"""Aggregates of one algorithm's scores over several tasks, as defined by Agarwal et al. (2021) and in rliable.

Tasks may have different numbers of runs, unlike in rliable; every task has the same weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

__all__ = ["METRICS", "TaskScores", "check_scores", "interquartile_mean", "mean", "median", "optimality_gap"]

TaskScores = Sequence[np.ndarray]
"""Normalized scores of one algorithm: for each task an array `[..., runs]`; statistics have the leading shape."""


def mean(scores: TaskScores) -> np.ndarray:
    """Return the mean over tasks of the mean over runs."""
    return _task_means(scores).mean(axis=0)


def median(scores: TaskScores) -> np.ndarray:
    """Return the median over tasks of the mean over runs."""
    return np.median(_task_means(scores), axis=0)


def interquartile_mean(scores: TaskScores) -> np.ndarray:
    """Return the mean of the middle half of all runs of all tasks.

    A run of a task with n runs has the weight 1 / n. Runs at the edges of the middle half count by the part of their
    weight that lies in it. rliable drops whole runs instead, so that the two agree if all tasks have equally many runs
    and their total is divisible by four.
    """
    check_scores(scores)
    values = np.concatenate([np.asarray(task, dtype=np.float64) for task in scores], axis=-1)
    runs = [np.shape(task)[-1] for task in scores]
    if len(set(runs)) == 1:  # much faster than to order the weights with the values
        ordered, weights = np.sort(values, axis=-1), np.ones(values.shape[-1])
    else:
        order = np.argsort(values, axis=-1)
        ordered = np.take_along_axis(values, order, axis=-1)
        weights = np.concatenate([np.full(n, 1.0 / n) for n in runs])[order]
    # Each value covers a part of [0, total), as long as its weight, in ascending order.
    upper = np.cumsum(weights, axis=-1)
    total = upper[..., -1:]
    inside = np.clip(np.minimum(upper, 0.75 * total) - np.maximum(upper - weights, 0.25 * total), 0.0, None)
    return (ordered * inside).sum(axis=-1) / inside.sum(axis=-1)


def optimality_gap(scores: TaskScores, threshold: float = 1.0) -> np.ndarray:
    """Return by how much runs fall short of a threshold: threshold - mean of min(score, threshold); lower is better."""
    return threshold - mean([np.minimum(task, threshold) for task in scores])


METRICS: Mapping[str, Callable[[TaskScores], np.ndarray]] = {
    "mean": mean,
    "median": median,
    "interquartile mean": interquartile_mean,
    "optimality gap": optimality_gap,
}
"""Aggregates by name."""


def check_scores(scores: TaskScores) -> None:
    """Raise a ValueError if there are no tasks, or a task has no runs."""
    runs = [np.asarray(task).shape[-1] for task in scores]
    if not runs or 0 in runs:
        raise ValueError(f"expected at least one task, and at least one run of each, got numbers of runs {runs}")


def _task_means(scores: TaskScores) -> np.ndarray:
    """Return the mean over runs of each task `[tasks, ...]`."""
    check_scores(scores)
    return np.stack([np.asarray(task, dtype=np.float64).mean(axis=-1) for task in scores])
