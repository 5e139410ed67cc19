"""Normalized scores of a report, and the statistics of algorithms over tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ahac.experiments.report.data import ReportData
from ahac.stats.across_tasks import METRICS
from ahac.stats.aggregate import iqm
from ahac.stats.bootstrap import stratified_interval
from ahac.stats.comparison import performance_profile, probability_of_improvement

__all__ = [
    "MOST_PAIRS",
    "PPO",
    "Estimate",
    "Improvement",
    "Normalization",
    "Profile",
    "Scope",
    "aggregates",
    "choose_scope",
    "common_tasks",
    "improvements",
    "normalize",
    "profiles",
]

PPO = "ppo"
"""Algorithm whose score is the unit, if it was run."""
THRESHOLDS = 201
"""Number of points of a performance profile."""
MOST_PAIRS = 100
"""Most pairs of columns that are compared."""


@dataclass(frozen=True)
class Normalization:
    """What scores are divided by."""

    algo: str | None
    """Algorithm whose score is the unit on every task; None for the best column of each task."""
    units: Mapping[str, float]
    """Unit of each task that has one."""
    left_out: Mapping[str, str]
    """Tasks without a unit, and why."""


@dataclass(frozen=True)
class Scope:
    """Columns and tasks of the statistics over tasks: every column has a score on every task."""

    columns: Sequence[str]
    tasks: Sequence[str]
    left_out: Sequence[str]
    """Columns with scores that are not compared, because they lack a task."""


@dataclass(frozen=True)
class Estimate:
    """A statistic and the ends of its 95% interval; these are NaN if no task has two runs."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Profile:
    """Performance profile of a column: fractions of runs above thresholds, and their interval, each `[thresholds]`."""

    thresholds: np.ndarray
    fractions: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Improvement:
    """Probability that a run of the first column beats one of the second."""

    first: str
    second: str
    probability: Estimate
    tasks: int
    """Number of tasks on which both have scores."""


def normalize(data: ReportData) -> Normalization:
    """Choose the unit of each task: the score of PPO if any of its runs was evaluated, else of the best column.

    A score is an interquartile mean over runs.
    """
    scores_of = {
        task: {column: iqm(scores) for column in data.columns if len(scores := data.scores(task, column))}
        for task in data.tasks
    }
    pooled = {task: _ppo_scores(data, task) for task in data.tasks}
    algo = PPO if any(len(scores) for scores in pooled.values()) else None
    units: dict[str, float] = {}
    left_out: dict[str, str] = {}
    for task, found in scores_of.items():
        if not found:
            left_out[task] = "no run was evaluated"
        elif algo is not None and not len(pooled[task]):
            left_out[task] = "PPO has no evaluated run"
        else:
            unit = iqm(pooled[task]) if algo is not None else max(found.values())
            if unit > 0.0:
                units[task] = unit
            else:
                left_out[task] = f"the score to divide by is not positive ({unit:.4g})"
    return Normalization(algo, units, left_out)


def choose_scope(data: ReportData, normalization: Normalization) -> Scope:
    """Choose what to compare over tasks.

    These are all tasks with a unit, and the columns with scores on all of them. If that leaves fewer than two of
    several columns, it is all columns, on the tasks that they have in common.
    """
    tasks = [task for task in data.tasks if task in normalization.units]
    having = {column: [task for task in tasks if len(data.scores(task, column))] for column in data.columns}
    columns = [column for column in data.columns if having[column]]
    full = [column for column in columns if having[column] == tasks]
    if len(full) >= min(2, len(columns)):
        return Scope(full, tasks if full else [], [column for column in columns if column not in full])
    return Scope(columns, [task for task in tasks if all(task in having[column] for column in columns)], [])


def aggregates(data: ReportData, normalization: Normalization, scope: Scope) -> dict[str, dict[str, Estimate]]:
    """Return the aggregate metrics of each column, by name."""
    found: dict[str, dict[str, Estimate]] = {}
    for column in scope.columns if scope.tasks else ():
        scores = _normalized(data, normalization, scope, column)
        found[column] = {}
        for name, metric in METRICS.items():
            low, high = stratified_interval(metric, scores, rng=np.random.default_rng(0))
            found[column][name] = Estimate(float(metric(scores)), float(low), float(high))
    return found


def profiles(data: ReportData, normalization: Normalization, scope: Scope) -> dict[str, Profile]:
    """Return the performance profile of each column, on thresholds from 0 or the lowest score to the highest."""
    if not scope.tasks:
        return {}
    scores = {column: _normalized(data, normalization, scope, column) for column in scope.columns}
    every = np.concatenate([task for tasks in scores.values() for task in tasks])
    thresholds = np.linspace(min(0.0, float(every.min())), 1.02 * max(float(every.max()), 1.0), THRESHOLDS)
    found: dict[str, Profile] = {}
    for column, tasks in scores.items():
        low, high = stratified_interval(
            lambda drawn: performance_profile(drawn, thresholds), tasks, rng=np.random.default_rng(0), resamples=1000
        )
        found[column] = Profile(thresholds, performance_profile(tasks, thresholds), low, high)
    return found


def common_tasks(data: ReportData) -> dict[tuple[str, str], list[str]]:
    """Return the tasks on which both columns of a pair have scores, for each pair that has some."""
    return {
        (first, second): both
        for first, second in combinations(data.columns, 2)
        if (both := [task for task in data.tasks if len(data.scores(task, first)) and len(data.scores(task, second))])
    }


def improvements(data: ReportData) -> list[Improvement]:
    """Return the probability of improvement of each pair of columns, over the tasks on which both have scores.

    If there are more than `MOST_PAIRS`, these are the pairs with the most common tasks, ties in the order of the
    columns.
    """
    tasks = common_tasks(data)
    most = sorted(tasks, key=lambda pair: -len(tasks[pair]))[:MOST_PAIRS]
    found: list[Improvement] = []
    for first, second in sorted(most, key=list(tasks).index):
        both = tasks[first, second]
        x, y = ([data.scores(task, column) for task in both] for column in (first, second))
        low, high = stratified_interval(probability_of_improvement, x, y, rng=np.random.default_rng(0))
        estimate = Estimate(float(probability_of_improvement(x, y)), float(low), float(high))
        found.append(Improvement(first, second, estimate, len(both)))
    return found


def _ppo_scores(data: ReportData, task: str) -> np.ndarray:
    """Return the scores of all PPO runs of a task, also of several groups."""
    columns = [column for column, algo in data.algos.items() if algo == PPO]
    return np.concatenate([np.empty(0), *(data.scores(task, column) for column in columns)])


def _normalized(data: ReportData, normalization: Normalization, scope: Scope, column: str) -> list[np.ndarray]:
    """Return the normalized scores of a column on the tasks that are compared."""
    return [data.scores(task, column) / normalization.units[task] for task in scope.tasks]
