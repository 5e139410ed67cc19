"""Runs side by side: groups of seeds, what their policies are worth, and how they stood at equal cost."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ahac.core.checks import check_finite
from ahac.core.errors import InputError
from ahac.experiments.run_files import RunFiles, find_runs, read_run
from ahac.stats.aggregate import bootstrap_interval, iqm
from ahac.training.config import NON_SEMANTIC_FIELDS

__all__ = ["Comparison", "compare", "comparison_points", "group_runs", "summarize"]

logger = logging.getLogger("ahac")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A group of runs that differ by their seeds; what is not known is not a number."""

    group: str
    """The folders' name without the seed, or task, algorithm and preset."""
    task: str
    seeds: tuple[int, ...]
    """Different ones, in order."""
    runs: int
    """More than there are seeds where several runs have the same one."""
    env_steps: float
    """At the end, mean over runs."""
    seconds: float
    """Of training, without compilation; mean over runs."""
    compile_seconds: float
    """Spent compiling kernels, mean over runs; not known if a run of an earlier version is among them."""
    evaluated: int
    """Runs whose last policy was evaluated."""
    score: float
    """Interquartile mean, over these runs, of the mean return of their final evaluations."""
    low: float
    """95 % bootstrap interval of the score, over runs; not known of a single one."""
    high: float
    at_steps: Mapping[float, float]
    """By environment steps, the interquartile mean over runs of the return in training there.

    Not known where a run did not come so far.
    """
    at_seconds: Mapping[float, float]
    """The same by seconds of training."""


def compare(
    folders: Iterable[str | os.PathLike[str]], at_steps: Sequence[float] = (), at_seconds: Sequence[float] = ()
) -> list[Comparison]:
    """Groups of runs, side by side.

    Args:
        folders: Runs, or folders of runs. Runs whose folders are named alike but for a seed at the end (ant-shac-0,
            ant-shac-s1) are a group, others are grouped by task, algorithm and preset; folders of runs stay apart.
        at_steps: Environment steps at which returns are compared; by default all that the shortest run of the task has.
        at_seconds: The same for seconds of training.
    """
    return summarize(group_runs(folders), at_steps, at_seconds)


def group_runs(folders: Iterable[str | os.PathLike[str]]) -> dict[str, list[RunFiles]]:
    """Runs by the names of their groups."""
    groups: dict[tuple[Path, str], list[RunFiles]] = {}
    for record in _records(folders):
        groups.setdefault((record.folder.parent, _group(record)), []).append(record)
    for (_, name), records in groups.items():
        _check(name, records)
    return {_distinguish(parent, name, list(groups)): runs for (parent, name), runs in groups.items()}


def _distinguish(parent: Path, name: str, groups: list[tuple[Path, str]]) -> str:
    """A group's name, with as much of its folder's as it needs to differ from the others."""
    same = [other for other, found in groups if found == name]
    if len(same) == 1:
        return name
    return f"{parent.name}/{name}" if len({other.name for other in same}) == len(same) else str(parent / name)


def summarize(
    groups: Mapping[str, list[RunFiles]], at_steps: Sequence[float] = (), at_seconds: Sequence[float] = ()
) -> list[Comparison]:
    """The same of groups that were found before."""
    steps = comparison_points(groups, "env_steps", at_steps)
    seconds = comparison_points(groups, "seconds", at_seconds)
    found = []
    for name, records in groups.items():
        task = records[0].settings["task"]
        scores = np.array([r.evaluation["mean"] for r in records if r.evaluation is not None], dtype=np.float64)
        low, high = bootstrap_interval(scores, np.random.default_rng(0)) if len(scores) > 1 else (math.nan, math.nan)
        found.append(
            Comparison(
                group=name,
                task=task,
                seeds=tuple(sorted({r.settings["seed"] for r in records})),
                runs=len(records),
                env_steps=float(np.mean([r.last("env_steps") for r in records])),
                seconds=float(np.mean([r.last("seconds") for r in records])),
                compile_seconds=float(np.mean([r.last("compile_seconds") for r in records])),
                evaluated=len(scores),
                score=iqm(scores) if len(scores) else math.nan,
                low=low,
                high=high,
                at_steps={x: iqm(np.array([r.return_at("env_steps", x) for r in records])) for x in steps[task]},
                at_seconds={x: iqm(np.array([r.return_at("seconds", x) for r in records])) for x in seconds[task]},
            )
        )
    return found


def comparison_points(
    groups: Mapping[str, list[RunFiles]], axis: str, asked: Sequence[float]
) -> dict[str, tuple[float, ...]]:
    """Where a task's returns are compared, on "env_steps" or "seconds": as asked, or where its shortest run ends."""
    chosen = tuple(dict.fromkeys(check_finite(f"a place on {axis}", x, 0.0) for x in asked))
    ends: dict[str, list[float]] = {}
    for record in (record for records in groups.values() for record in records):
        ends.setdefault(record.settings["task"], []).append(record.last(axis))
    return {task: chosen or (min(found),) for task, found in ends.items()}


def _records(folders: Iterable[str | os.PathLike[str]]) -> list[RunFiles]:
    """All runs in these folders, each once; those that cannot be used are left out with a warning."""
    paths: dict[Path, None] = {}
    for folder in map(Path, folders):
        runs = find_runs(folder)
        if not runs:
            raise InputError(f"{folder} is neither a run nor a folder of runs: there is no config.json in or below it")
        paths |= dict.fromkeys(path.resolve() for path in runs)
    records, reasons = [], []
    for path in paths:
        try:
            record = read_run(path)
        except InputError as error:
            reasons.append(str(error))
            logger.warning("%s is left out: %s", path, error)
            continue
        if not record.rows:
            reasons.append(f"{path} has no completed iteration")
            logger.warning("%s is left out: it has no completed iteration", path)
            continue
        records.append(record)
    if not records:
        more = f"; and {len(reasons) - 1} more like it" if len(reasons) > 1 else ""
        raise InputError(f"there is nothing to compare: {reasons[0]}{more}")
    return records


def _group(record: RunFiles) -> str:
    """What a run is one of: its name without the seed at the end, or what it was made from."""
    settings, name = record.settings, record.folder.name
    # A second run of the same name has a number behind the seed.
    without = re.sub(rf"-(s|seed)?{settings['seed']:d}(-\d+)?$", "", name)
    return without if without != name else f"{settings['task']}-{settings['algo']}-{settings['preset']}"


def _check(name: str, records: list[RunFiles]) -> None:
    """Runs of a group are of one task, and should differ by chance alone."""
    first, *others = records
    keys = {key for record in records for key in record.settings} - NON_SEMANTIC_FIELDS - {"seed", "schema"}
    odd = sorted(key for key in keys if any(first.settings.get(key) != other.settings.get(key) for other in others))
    if "task" in odd:
        raise InputError(
            f"the runs of group {name!r} have different tasks: {', '.join(str(r.folder) for r in records)}; "
            "compare them separately, or rename their folders"
        )
    if odd:
        logger.warning("the runs of group %r differ in more than their seeds: %s", name, ", ".join(odd))
    seeds: dict[int, list[str]] = {}
    for record in records:
        seeds.setdefault(record.settings["seed"], []).append(record.folder.name)
    for seed, runs in seeds.items():
        if len(runs) > 1:
            logger.warning(
                "group %r has seed %d more than once (%s): these runs are not independent, yet each counts in the "
                "mean and its interval; leave all but one out",
                name,
                seed,
                ", ".join(runs),
            )
