"""Runs as their folders tell of them: settings, table and evaluation, without making anything of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ahac.core.errors import InputError
from ahac.training.table import read_csv

__all__ = ["Record", "find_runs", "read_record"]


@dataclass(frozen=True)
class Record:
    """One run."""

    folder: Path
    settings: Mapping[str, Any]
    """Of config.json; those of another version of this program may have other names."""
    rows: list[dict[str, float]]
    """Of metrics.csv, one per iteration."""
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
    def worth(self) -> str:
        """What the last policy is worth, "interquartile mean [low, high]"; "-" where that is not known."""
        found = self.evaluation
        return "-" if found is None else "{:.1f} [{:.1f}, {:.1f}]".format(found["iqm"], *found["interval"])

    def mean(self, name: str) -> float:
        """Of a number over all iterations that have it; not a number where none has."""
        known = [row[name] for row in self.rows if name in row]
        return sum(known) / len(known) if known else float("nan")

    def return_at(self, axis: str, place: float) -> float:
        """The latest return in training at this place on "env_steps" or "seconds", not beyond.

        Not a number where the run did not come so far, or no episode had ended.
        """
        known = [row["episode_return"] for row in self.rows if row[axis] <= place and "episode_return" in row]
        return known[-1] if known and self.last(axis) >= place else float("nan")


def find_runs(folder: Path) -> list[Path]:
    """This folder if it is a run's, else the run folders in it."""
    if (folder / "config.json").is_file():
        return [folder]
    return sorted(path.parent for path in folder.glob("*/config.json"))


def read_record(folder: Path) -> Record:
    """What a run's folder holds."""
    settings = _json(folder / "config.json")
    if missing := {"task", "algo", "preset", "seed", "iterations"} - settings.keys():
        raise InputError(f"{folder / 'config.json'} is no run's: it has no {', '.join(sorted(missing))}")
    table, about = folder / "metrics.csv", folder / "evaluation.json"
    rows = read_csv(table) if table.exists() else []
    evaluation = _json(about) if about.exists() else None
    if evaluation is not None and rows and evaluation.get("iteration") != rows[-1]["iteration"]:
        evaluation = None
    return Record(folder, settings, rows, evaluation)


def _json(path: Path) -> dict[str, Any]:
    """A file that holds a dictionary."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} must hold a dictionary, got {type(content).__name__}")
    return content
