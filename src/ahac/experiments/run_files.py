"""Runs as their folders tell of them: settings, table and evaluation, without making anything of them.

These files come from other versions, other machines and killed processes. What is read is checked here, once, so that
whatever uses a record can rely on it; a file that cannot be used is refused with its name and the reason.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ahac.core.checks import check_finite, check_int
from ahac.core.config import to_dict
from ahac.core.errors import InputError
from ahac.core.files import read_json
from ahac.training.checkpoint import CheckpointError, checkpoint_names
from ahac.training.config import RunConfig
from ahac.training.csv_log import read_csv
from ahac.training.old_settings import upgrade_settings
from ahac.training.run import open_run

__all__ = ["RunFiles", "find_runs", "read_run"]

NAMES, COUNTS = ("task", "algo", "preset"), {"seed": 0, "iterations": 1}
"""What every run must have: texts, and whole numbers with the least that they can be."""
DEFAULTS = {name: value for name, value in to_dict(RunConfig()).items() if name not in ("task", "algorithm")}
"""Settings that may be missing in config.json, as `resume` reads them; it is not a run's without a task."""
AXES = ("iteration", "env_steps", "seconds")
"""What every row of metrics.csv must have."""
LARGEST = 1e100
"""Beyond what 32-bit training can produce: a larger number in a file is damage."""


@dataclass(frozen=True)
class RunFiles:
    """One run."""

    folder: Path
    settings: Mapping[str, Any]
    """Of config.json or, where that is missing, of a checkpoint; other versions may have other names."""
    rows: list[dict[str, float]]
    """Of metrics.csv, one per iteration; what is not a finite number is left out."""
    evaluation: Mapping[str, Any] | None
    """Of evaluation.json; None where there is none, or the run has gone on since."""

    def last(self, name: str, otherwise: float = float("nan")) -> float:
        """A number of the last iteration."""
        return self.rows[-1].get(name, otherwise) if self.rows else otherwise

    @property
    def complete(self) -> bool:
        """Whether all iterations, or environment steps, are done."""
        if (steps := self.settings.get("env_steps")) is not None:
            return self.last("env_steps", 0.0) >= steps
        return self.last("iteration", 0.0) >= self.settings["iterations"]

    @property
    def score(self) -> str:
        """What the last policy is worth, "interquartile mean [low, high]"; "-" where that is not known."""
        found = self.evaluation
        return "-" if found is None else "{:.1f} [{:.1f}, {:.1f}]".format(found["iqm"], *found["interval"])

    def mean(self, name: str) -> float:
        """Of a number over all iterations that have it; not a number where none has."""
        known = [row[name] for row in self.rows if name in row]
        return sum(known) / len(known) if known else float("nan")

    def return_at(self, axis: str, point: float) -> float:
        """The latest return in training at this place on "env_steps" or "seconds", not beyond.

        Not a number where the run did not come so far, or no episode had ended.
        """
        known = [row["episode_return"] for row in self.rows if row[axis] <= point and "episode_return" in row]
        return known[-1] if known and self.last(axis) >= point else float("nan")


def find_runs(folder: Path) -> list[Path]:
    """This folder if it is that of a run, else the run folders in it; hidden ones are skipped.

    A run that has lost its config.json is found by its checkpoints, which hold the settings, too.
    """
    if _is_run(folder):
        return [folder]
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and _is_run(path))


def read_run(folder: Path) -> RunFiles:
    """What a run's folder holds; refused where a file of it is damaged."""
    settings = _settings(folder)
    rows = _rows(folder / "metrics.csv")
    evaluation = _evaluation(folder / "evaluation.json")
    if evaluation is not None and rows and evaluation["iteration"] != rows[-1]["iteration"]:
        evaluation = None
    return RunFiles(folder, settings, rows, evaluation)


def _is_run(folder: Path) -> bool:
    return _holds_config(folder) or _has_checkpoints(folder)


def _has_checkpoints(folder: Path) -> bool:
    return bool(checkpoint_names(folder / "checkpoints"))


def _holds_config(folder: Path) -> bool:
    """Whether there is a config.json; also if it cannot be looked at, so that it is told of rather than hidden."""
    try:
        (folder / "config.json").lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return folder.is_dir()
    return True


def _settings(folder: Path) -> dict[str, Any]:
    """Of config.json or, where that is missing, of a checkpoint; checked as far as they are needed here."""
    path = folder / "config.json"
    try:
        lost = not path.is_file() and _has_checkpoints(folder)
        found = to_dict(open_run(folder).config) if lost else upgrade_settings(read_json(path, editable=True))
    except (CheckpointError, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    found = {**DEFAULTS, **found}
    if missing := {*NAMES, *COUNTS} - found.keys():
        raise InputError(f"{path} is not that of a run: it lacks {', '.join(sorted(missing))}")
    for name in NAMES:
        if not isinstance(found[name], str) or not found[name]:
            raise InputError(f"{path} is damaged: {name} must be a name, got {_short(found[name])}")
    for name, least in COUNTS.items():
        _whole(path, name, found[name], least)
    if found.get("env_steps") is not None:
        _whole(path, "env_steps", found["env_steps"], 1)
    return found


def _evaluation(path: Path) -> dict[str, Any] | None:
    """Of evaluation.json; None where there is none."""
    if not os.path.lexists(path):
        return None
    found = read_json(path)
    if missing := {"iteration", "mean", "iqm", "interval"} - found.keys():
        raise InputError(f"{path} is damaged: it has no {', '.join(sorted(missing))}")
    _whole(path, "iteration", found["iteration"], 0)
    interval = found["interval"]
    if not isinstance(interval, Sequence) or len(interval) != 2:
        raise InputError(f"{path} is damaged: interval must be two numbers, got {_short(interval)}")
    for name, value in (("mean", found["mean"]), ("iqm", found["iqm"]), *(("interval", x) for x in interval)):
        _number(path, name, value)
    return found


def _rows(path: Path) -> list[dict[str, float]]:
    """Of metrics.csv; none where there is no such file."""
    if not os.path.lexists(path):
        return []
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            header = file.readline()
        if not header.endswith("\n"):  # which is there even before the first iteration
            raise InputError(f"{path} is damaged: its first line is incomplete")
        columns = header.strip().split(",")
        if columns == [""]:  # before the first iteration
            return []
        if missing := [name for name in AXES if name not in columns]:
            raise InputError(f"{path} is damaged: it has no column {', '.join(missing)}")
        rows = read_csv(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    iteration = env_steps = 0.0
    for row in rows:
        where = f"at iteration {row['iteration']:g}"
        if missing := [name for name in AXES if name not in row]:
            raise InputError(f"{path} is damaged: {', '.join(missing)} is missing {where}")
        for name in AXES:
            _number(path, f"{name} {where}", row[name])
        if row["iteration"] <= iteration or row["env_steps"] < env_steps:
            raise InputError(f"{path} is damaged: iteration or env_steps does not increase {where}")
        iteration, env_steps = row["iteration"], row["env_steps"]
    return [{name: value for name, value in row.items() if abs(value) < LARGEST} for row in rows]


def _whole(path: Path, name: str, value: object, least: int) -> None:
    try:
        check_int(name, value, least)
    except InputError as error:
        raise InputError(f"{path} is damaged: {name} must be a whole number, got {_short(value)}") from error


def _number(path: Path, name: str, value: object) -> float:
    try:
        number = check_finite(name, value)
    except (InputError, OverflowError):  # the latter of an integer with hundreds of digits
        number = math.inf
    if abs(number) >= LARGEST:
        raise InputError(f"{path} is damaged: {name} must be a finite number, got {_short(value)}")
    return number


def _short(value: object) -> str:
    """A value for an error message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
