"""Comparison of runs: groups of seeds, their evaluation scores, and their returns at equal cost."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ahac.core.checks import check_finite
from ahac.core.config import flatten
from ahac.core.errors import InputError
from ahac.experiments.run_files import RunFiles
from ahac.experiments.run_sets import RunSet
from ahac.stats.aggregate import bootstrap_interval, iqm
from ahac.training.config import NON_SEMANTIC_FIELDS

__all__ = [
    "Comparison",
    "compare",
    "comparison_points",
    "different_settings",
    "group_name",
    "group_runs",
    "summarize",
]

logger = logging.getLogger("ahac")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Statistics of a group of runs that differ only in their seeds; unknown values are NaN."""

    group: str
    """Folder name without the seed, or task, algorithm and preset."""
    task: str
    seeds: tuple[int, ...]
    """Distinct seeds in ascending order."""
    runs: int
    """Number of runs; exceeds the number of seeds if several runs share one."""
    env_steps: float
    """Environment steps at the end, mean over runs."""
    seconds: float
    """Training time without compilation [s], mean over runs."""
    compile_seconds: float
    """Kernel compilation time [s], mean over runs; NaN if the group has a run of an earlier version."""
    evaluated: int
    """Number of runs with a final evaluation."""
    score: float
    """Interquartile mean over the evaluated runs of their mean evaluation return."""
    low: float
    """Lower end of the 95% bootstrap interval of the score over runs; NaN for a single run."""
    high: float
    """Upper end of the interval."""
    at_steps: Mapping[float, float]
    """Interquartile mean over runs of the training return, by environment steps.

    NaN where a run ended earlier.
    """
    at_seconds: Mapping[float, float]
    """The same by seconds of training time."""


def compare(
    folders: Iterable[str | os.PathLike[str]], at_steps: Sequence[float] = (), at_seconds: Sequence[float] = ()
) -> list[Comparison]:
    """Compare groups of runs.

    Args:
        folders: Run folders, folders of run folders, or archives of runs. Runs whose folder names differ only in a
            trailing seed (ant-shac-0, ant-shac-s1) form a group; others are grouped by task, algorithm and preset. Runs
            in different parent folders or archives are never grouped together.
        at_steps: Environment steps at which to compare returns; by default the end of the task's shortest run.
        at_seconds: The same for seconds of training time.
    """
    return summarize(group_runs(folders), at_steps, at_seconds)


def group_runs(folders: Iterable[str | os.PathLike[str]] | RunSet) -> dict[str, list[RunFiles]]:
    """Read runs and return them by group name."""
    given = folders if isinstance(folders, RunSet) else RunSet(folders)
    groups: dict[tuple[Path, str], list[RunFiles]] = {}
    for run in given.read():
        groups.setdefault((run.folder.parent, group_name(run.folder, run.settings)), []).append(run)
    for (_, name), runs in groups.items():
        _check(name, runs)
    return {_distinguish(parent, name, list(groups)): runs for (parent, name), runs in groups.items()}


def _distinguish(parent: Path, name: str, groups: list[tuple[Path, str]]) -> str:
    """Return a group's name, prefixed with as much of its folder as needed to make it unique."""
    same = [other for other, other_name in groups if other_name == name]
    if len(same) == 1:
        return name
    return f"{parent.name}/{name}" if len({other.name for other in same}) == len(same) else str(parent / name)


def summarize(
    groups: Mapping[str, list[RunFiles]], at_steps: Sequence[float] = (), at_seconds: Sequence[float] = ()
) -> list[Comparison]:
    """Compare groups of runs that were already read; see `compare`."""
    steps = comparison_points(groups, "env_steps", at_steps)
    seconds = comparison_points(groups, "seconds", at_seconds)
    comparisons: list[Comparison] = []
    for name, runs in groups.items():
        task = runs[0].settings["task"]
        scores = np.array([r.evaluation["mean"] for r in runs if r.evaluation is not None], dtype=np.float64)
        low, high = bootstrap_interval(scores, np.random.default_rng(0)) if len(scores) > 1 else (math.nan, math.nan)
        comparisons.append(
            Comparison(
                group=name,
                task=task,
                seeds=tuple(sorted({r.settings["seed"] for r in runs})),
                runs=len(runs),
                env_steps=float(np.mean([r.last("env_steps") for r in runs])),
                seconds=float(np.mean([r.last("seconds") for r in runs])),
                compile_seconds=float(np.mean([r.last("compile_seconds") for r in runs])),
                evaluated=len(scores),
                score=iqm(scores) if len(scores) else math.nan,
                low=low,
                high=high,
                at_steps={x: iqm(np.array([r.return_at("env_steps", x) for r in runs])) for x in steps[task]},
                at_seconds={x: iqm(np.array([r.return_at("seconds", x) for r in runs])) for x in seconds[task]},
            )
        )
    return comparisons


def comparison_points(
    groups: Mapping[str, list[RunFiles]], axis: str, asked: Sequence[float]
) -> dict[str, tuple[float, ...]]:
    """Return the points on "env_steps" or "seconds" at which to compare each task's returns.

    These are the points in `asked` or, if it is empty, the end of the task's shortest run.
    """
    points = tuple(dict.fromkeys(check_finite(f"a point on {axis}", x, 0.0) for x in asked))
    ends: dict[str, list[float]] = {}
    for run in (run for runs in groups.values() for run in runs):
        ends.setdefault(run.settings["task"], []).append(run.last(axis))
    return {task: points or (min(task_ends),) for task, task_ends in ends.items()}


def group_name(folder: Path, settings: Mapping[str, Any]) -> str:
    """Return the group of a run: its name without the trailing seed, or task, algorithm and preset."""
    # A second run of the same name has a number after the seed.
    without = re.sub(rf"-(s|seed)?{settings['seed']:d}(-\d+)?$", "", folder.name)
    return without if without != folder.name else f"{settings['task']}-{settings['algo']}-{settings['preset']}"


def different_settings(runs: Sequence[RunFiles]) -> list[str]:
    """Return the names of the settings in which runs differ, except for seeds and what does not affect results."""
    first, *others = (flatten(run.settings) for run in runs)
    names = {name for settings in (first, *others) for name in settings} - NON_SEMANTIC_FIELDS - {"seed", "schema"}
    return sorted(name for name in names if any(first.get(name) != other.get(name) for other in others))


def _check(name: str, runs: list[RunFiles]) -> None:
    """Raise an InputError if the runs of a group have different tasks; warn about other differences than seeds."""
    different = different_settings(runs)
    if "task" in different:
        raise InputError(
            f"the runs of group {name!r} have different tasks: {', '.join(str(r.folder) for r in runs)}; "
            "compare them separately, or rename their folders"
        )
    if different:
        logger.warning("the runs of group %r differ in more than their seeds: %s", name, ", ".join(different))
    seeds: dict[int, list[str]] = {}
    for run in runs:
        seeds.setdefault(run.settings["seed"], []).append(run.folder.name)
    for seed, names in seeds.items():
        if len(names) > 1:
            logger.warning(
                "group %r has seed %d more than once (%s): these runs are not independent, yet each counts in the "
                "mean and its interval; remove all but one",
                name,
                seed,
                ", ".join(names),
            )
