"""Read-only view of a run folder: settings, metrics and evaluation, without building the environment or networks.

These files may come from other versions, other machines and killed processes. They are validated here once, so that
users of `RunFiles` can rely on the content; an unusable file raises an InputError with its name and the reason.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
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

__all__ = ["RunFiles", "find_runs", "read_run", "read_settings"]

NAMES = ("task", "algo", "preset")
"""Required string settings."""
COUNTS = {"seed": 0, "iterations": 1}
"""Required integer settings, with their minimum."""
DEFAULTS = {name: value for name, value in to_dict(RunConfig()).items() if name not in ("task", "algorithm")}
"""Defaults of settings that may be missing in config.json, as in `ahac resume`; the task is required."""
AXES = ("iteration", "env_steps", "seconds")
"""Required columns of every row of metrics.csv."""
LARGEST = 1e100
"""Beyond what 32-bit training can produce; a larger number in a file indicates damage."""


@dataclass(frozen=True)
class RunFiles:
    """Validated content of a run folder."""

    folder: Path
    settings: Mapping[str, Any]
    """Settings from config.json or, if that is missing, from a checkpoint; other versions may have other names."""
    rows: list[dict[str, float]]
    """Rows of metrics.csv, one per iteration, without non-finite values; all columns or those that were asked for."""
    evaluation: Mapping[str, Any] | None
    """Content of evaluation.json; None if it is missing or older than the last iteration."""
    manifest: Mapping[str, Any]
    """Content of manifest.json: machine and versions; empty if it is missing or cannot be read."""

    def last(self, name: str, otherwise: float = float("nan")) -> float:
        """Return a metric of the last iteration, or `otherwise` if it is missing."""
        return self.rows[-1].get(name, otherwise) if self.rows else otherwise

    @property
    def complete(self) -> bool:
        """Whether all iterations or environment steps are done, also if rows of metrics.csv were lost since."""
        name, length = self._length
        evaluated = 0 if self.evaluation is None else self.evaluation.get(name, 0)
        return self.logged or evaluated >= length

    @property
    def logged(self) -> bool:
        """Whether metrics.csv reaches the end of the run."""
        name, length = self._length
        return self.last(name, 0.0) >= length

    @property
    def _length(self) -> tuple[str, int]:
        """Unit and length of the run."""
        if (steps := self.settings.get("env_steps")) is not None:
            return "env_steps", steps
        return "iteration", self.settings["iterations"]

    @property
    def score(self) -> str:
        """Evaluation score as "interquartile mean [low, high]"; "-" if there is none."""
        if self.evaluation is None:
            return "-"
        low, high = self.evaluation["interval"]
        return f"{self.evaluation['iqm']:.1f} [{low:.1f}, {high:.1f}]"

    def mean(self, name: str) -> float:
        """Return the mean of a metric over all iterations that have it; NaN if none has."""
        values = [row[name] for row in self.rows if name in row]
        return sum(values) / len(values) if values else float("nan")

    def thinned(self, every: int) -> RunFiles:
        """Return the run with the iterations that are multiples of `every`, and the last one."""
        if every == 1:
            return self
        kept = [row for row in self.rows[:-1] if row["iteration"] % every == 0]
        return replace(self, rows=kept + self.rows[-1:])

    def return_at(self, axis: str, point: float) -> float:
        """Return the latest training return up to a point on "env_steps" or "seconds".

        NaN if the run ended before that point, or no episode had ended by then.
        """
        returns = [row["episode_return"] for row in self.rows if row[axis] <= point and "episode_return" in row]
        return returns[-1] if returns and self.last(axis) >= point else float("nan")


def find_runs(folder: Path) -> list[Path]:
    """Return the folder itself if it is a run folder, else the run folders in it, without hidden ones.

    A run without config.json is recognized by its checkpoints, which also hold the settings.
    """
    if _is_run(folder):
        return [folder]
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and _is_run(path))


def read_run(folder: Path, columns: Collection[str] | None = None) -> RunFiles:
    """Read a run folder; raise an InputError if a file in it is damaged.

    Args:
        folder: Run folder.
        columns: Columns of metrics.csv to keep, besides `AXES`; by default all. Few take little memory for many runs.
    """
    settings = read_settings(folder)
    rows = _rows(folder / "metrics.csv", columns)
    evaluation = _evaluation(folder / "evaluation.json")
    if evaluation is not None and rows and evaluation["iteration"] < rows[-1]["iteration"]:
        evaluation = None  # a later one means that rows were lost
    return RunFiles(folder, settings, rows, evaluation, _manifest(folder / "manifest.json"))


def _is_run(folder: Path) -> bool:
    return _holds_config(folder) or _has_checkpoints(folder)


def _has_checkpoints(folder: Path) -> bool:
    return bool(checkpoint_names(folder / "checkpoints"))


def _holds_config(folder: Path) -> bool:
    """Return whether there is a config.json, even an unreadable one, so that the run is reported and not hidden."""
    try:
        (folder / "config.json").lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return folder.is_dir()
    return True


def read_settings(folder: Path) -> dict[str, Any]:
    """Read the settings of a run from config.json or, if that is missing, a checkpoint; check those needed here."""
    path = folder / "config.json"
    try:
        from_checkpoint = not path.is_file() and _has_checkpoints(folder)
        saved = (
            to_dict(open_run(folder).config) if from_checkpoint else upgrade_settings(read_json(path, editable=True))
        )
    except (CheckpointError, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    settings = {**DEFAULTS, **saved}
    if missing := {*NAMES, *COUNTS} - settings.keys():
        raise InputError(f"{path} is not the config of a run: it lacks {', '.join(sorted(missing))}")
    for name in NAMES:
        if not isinstance(settings[name], str) or not settings[name]:
            raise InputError(f"{path} is damaged: {name} must be a name, got {_short(settings[name])}")
    for name, minimum in COUNTS.items():
        _check_count(path, name, settings[name], minimum)
    if settings.get("env_steps") is not None:
        _check_count(path, "env_steps", settings["env_steps"], 1)
    return settings


def _evaluation(path: Path) -> dict[str, Any] | None:
    """Read evaluation.json; return None if it does not exist."""
    if not os.path.lexists(path):
        return None
    evaluation = read_json(path)
    if missing := {"iteration", "mean", "iqm", "interval"} - evaluation.keys():
        raise InputError(f"{path} is damaged: it has no {', '.join(sorted(missing))}")
    for name in evaluation.keys() & {"iteration", "env_steps"}:
        _check_count(path, name, evaluation[name], 0)
    interval = evaluation["interval"]
    if not isinstance(interval, Sequence) or len(interval) != 2:
        raise InputError(f"{path} is damaged: interval must be two numbers, got {_short(interval)}")
    for name in ("mean", "iqm"):
        _check_number(path, name, evaluation[name])
    for end in interval:
        _check_number(path, "interval", end)
    return evaluation


def _manifest(path: Path) -> dict[str, Any]:
    try:
        return read_json(path, editable=True)
    except InputError:
        return {}


def _rows(path: Path, kept: Collection[str] | None) -> list[dict[str, float]]:
    """Read metrics.csv, all columns or the kept ones; return no rows if it does not exist."""
    if not os.path.lexists(path):
        return []
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            header = file.readline()
        if not header.endswith("\n"):  # written even before the first iteration
            raise InputError(f"{path} is damaged: its first line is incomplete")
        names = header.strip().split(",")
        if names == [""]:  # before the first iteration
            return []
        if missing := [name for name in AXES if name not in names]:
            raise InputError(f"{path} is damaged: it has no column {', '.join(missing)}")
        rows = read_csv(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    iteration = env_steps = 0.0
    for row in rows:
        known = all(abs(row.get(name, math.nan)) < LARGEST for name in AXES)
        if not known or row["iteration"] <= iteration or row["env_steps"] < env_steps:
            raise InputError(f"{path} is damaged: {_damage_of(row)}")
        iteration = row["iteration"]
        env_steps = row["env_steps"]
    if kept is not None:
        kept = (*AXES, *(name for name in kept if name not in AXES))
        rows = [{name: row[name] for name in kept if name in row} for row in rows]
    return [{name: value for name, value in row.items() if abs(value) < LARGEST} for row in rows]


def _damage_of(row: Mapping[str, float]) -> str:
    """Return what is wrong with a row of metrics.csv."""
    where = f"at iteration {row['iteration']:g}"
    if missing := [name for name in AXES if name not in row]:
        return f"{', '.join(missing)} is missing {where}"
    if infinite := [name for name in AXES if not abs(row[name]) < LARGEST]:
        return f"{infinite[0]} {where} must be a finite number, got {row[infinite[0]]}"
    return f"iteration or env_steps does not increase {where}"


def _check_count(path: Path, name: str, value: object, minimum: int) -> None:
    try:
        check_int(name, value, minimum)
    except InputError as error:
        raise InputError(f"{path} is damaged: {name} must be a whole number, got {_short(value)}") from error


def _check_number(path: Path, name: str, value: object) -> None:
    try:
        number = check_finite(name, value)
    except (InputError, OverflowError):  # OverflowError for an integer with hundreds of digits
        number = math.inf
    if abs(number) >= LARGEST:
        raise InputError(f"{path} is damaged: {name} must be a finite number, got {_short(value)}")


def _short(value: object) -> str:
    """Return a value as text for an error message, truncated if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
