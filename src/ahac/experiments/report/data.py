"""What a report is about: groups of runs as cells of a table of tasks and columns, and the runs that were skipped."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ahac.core.errors import InputError
from ahac.core.task_names import is_task_file, split_task_file
from ahac.experiments.compare import Comparison, different_settings, group_name, group_runs, summarize
from ahac.experiments.plot import AXES, RETURN, curve
from ahac.experiments.report.paper import ALGORITHMS, RETURNS
from ahac.experiments.run_files import RunFiles, read_settings
from ahac.experiments.run_sets import RunSet
from ahac.stats.convergence import last_tenth_change

__all__ = ["Group", "ReportData", "read_report_data"]

COLUMNS = (RETURN, "compile_seconds")
"""Columns of metrics.csv that a report shows, besides iteration, env_steps and seconds."""
MIN_ROWS = 20
"""Iterations of a run in which a tenth of training means something."""


@dataclass(frozen=True)
class Group:
    """Runs of one task that differ only in their seeds."""

    column: str
    """The algorithm or, where an algorithm has several groups on a task, the group's name without the task."""
    algo: str
    runs: Sequence[RunFiles]
    summary: Comparison
    """Statistics of `ahac compare`."""
    skipped: int = 0
    """Number of runs of this group that could not be used."""

    @property
    def task(self) -> str:
        """Task of the runs."""
        return self.summary.task

    @cached_property
    def scores(self) -> np.ndarray:
        """Mean evaluation return of each evaluated run `[evaluated runs]`."""
        return np.array([run.evaluation["mean"] for run in self.runs if run.evaluation is not None], dtype=np.float64)

    @cached_property
    def curve_runs(self) -> Sequence[RunFiles]:
        """Runs of the learning curve, which ends with the shortest: those with metrics to the end, or all if none."""
        return [run for run in self.runs if run.logged] or self.runs

    @cached_property
    def curves(self) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
        """Learning curves by axis: points `[n]` and the return of each run there `[runs, n]`; n may be 0."""
        return {axis: curve(self.curve_runs, axis) for axis in AXES}

    @property
    def axes_without_curve(self) -> list[str]:
        """Axes on which there is no learning curve."""
        return [axis for axis, (points, _) in self.curves.items() if not len(points)]

    @property
    def has_curve(self) -> bool:
        """Whether there is a learning curve on some axis."""
        return len(self.axes_without_curve) < len(self.curves)

    @property
    def without_return(self) -> int:
        """Number of runs of the learning curve that never had a return."""
        return sum(math.isnan(run.mean(RETURN)) for run in self.curve_runs)

    @cached_property
    def last_tenth_change(self) -> float:
        """Fraction by which the return in training rises over the last tenth of the steps; NaN for very short runs."""
        if min(len(run.rows) for run in self.curve_runs) < MIN_ROWS:
            return math.nan
        return last_tenth_change(*self.curves["env_steps"])

    @property
    def incomplete(self) -> int:
        """Number of runs that ended before their last iteration."""
        return sum(not run.complete for run in self.runs)

    @cached_property
    def different(self) -> list[str]:
        """Settings other than the seed in which the runs differ."""
        return different_settings(self.runs)


@dataclass(frozen=True)
class ReportData:
    """Groups of runs by task and column."""

    groups: Sequence[Group]
    skipped: Mapping[Path, str]
    """Run folders that could not be used, and why."""

    @cached_property
    def tasks(self) -> list[str]:
        """Tasks: those of the paper in its order, then others as they come."""
        return sorted(dict.fromkeys(group.task for group in self.groups), key=_place(list(RETURNS)))

    @cached_property
    def columns(self) -> list[str]:
        """Columns, ordered by algorithm in the same way; the one that has the name of its algorithm is its first."""
        algos = {group.column: group.algo for group in self.groups}
        place = _place([*ALGORITHMS, *dict.fromkeys(algos.values())])
        return sorted(algos, key=lambda column: (place(algos[column]), column != algos[column]))

    @cached_property
    def algos(self) -> dict[str, str]:
        """Algorithm of each column."""
        found = {group.column: group.algo for group in self.groups}
        return {column: found[column] for column in self.columns}

    def group(self, task: str, column: str) -> Group | None:
        """Return the group of a task in a column; None if there is none."""
        return self._cells.get((task, column))

    def scores(self, task: str, column: str) -> np.ndarray:
        """Return the scores of the evaluated runs `[runs]`; empty if there are none."""
        group = self.group(task, column)
        return np.empty(0) if group is None else group.scores

    @cached_property
    def _cells(self) -> dict[tuple[str, str], Group]:
        return {(group.task, group.column): group for group in self.groups}


def read_report_data(folders: Iterable[str | os.PathLike[str]]) -> ReportData:
    """Read runs and group them as `ahac compare` does; raise an InputError if no run can be used."""
    given = RunSet(folders, COLUMNS)
    groups = group_runs(given)
    columns = _columns(groups)
    skipped = Counter(map(_group_of, given.skipped))
    found = [
        Group(columns[summary.group], runs[0].settings["algo"], runs, summary, skipped[_group_of(runs[0].folder)])
        for runs, summary in zip(groups.values(), summarize(groups), strict=True)
    ]
    return ReportData(found, given.skipped)


def _group_of(folder: Path) -> tuple[Path, str]:
    """Return what identifies the group of a run; an empty name if the settings cannot be read."""
    try:
        return folder.parent, group_name(folder, read_settings(folder))
    except InputError:
        return folder.parent, ""


def _columns(groups: Mapping[str, Sequence[RunFiles]]) -> dict[str, str]:
    """Return the column of each group, so that no two groups of a task share one."""
    tasks = {name: runs[0].settings["task"] for name, runs in groups.items()}
    algos = {name: runs[0].settings["algo"] for name, runs in groups.items()}
    counts = Counter((tasks[name], algos[name]) for name in groups)
    several = {algo for (_, algo), count in counts.items() if count > 1}
    columns = {
        name: _without_task(group_name(runs[0].folder, runs[0].settings), tasks[name])
        if algos[name] in several
        else algos[name]
        for name, runs in groups.items()
    }
    columns = _with_folders(columns, tasks, {name: runs[0].folder.parent for name, runs in groups.items()})
    # The same column must also mean the same algorithm on every task.
    meanings = {column: {algos[name] for name in groups if columns[name] == column} for column in columns.values()}
    uses = Counter((tasks[name], columns[name]) for name in groups)
    clear = all(len(found) == 1 for found in meanings.values()) and max(uses.values()) == 1
    return columns if clear else {name: name for name in groups}


def _with_folders(columns: Mapping[str, str], tasks: Mapping[str, str], folders: Mapping[str, Path]) -> dict[str, str]:
    """Return the columns with the folder before those that several groups of a task share, on all tasks alike."""
    uses = Counter((tasks[name], column) for name, column in columns.items())
    shared = {column for (_, column), count in uses.items() if count > 1}
    found = dict(columns)
    for column in shared:
        parents = {name: folders[name] for name in columns if columns[name] == column}
        short = len({folder.name for folder in parents.values()}) == len(set(parents.values()))
        found |= {
            name: f"{folder.name}/{column}" if short else str(folder / column) for name, folder in parents.items()
        }
    return found


def _without_task(group: str, task: str) -> str:
    """Return a group's name without the task at its start: "ant-shac-wide" becomes "shac-wide"."""
    prefix = split_task_file(task)[1] if is_task_file(task) else task
    return group.removeprefix(f"{prefix}-") or group


def _place(order: Sequence[str]) -> Callable[[str], int]:
    """Return a sort key that places names in this order, and others after them."""
    names = list(dict.fromkeys(order))
    return lambda name: names.index(name) if name in names else len(names)
