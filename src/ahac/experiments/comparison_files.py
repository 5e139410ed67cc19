"""Comparisons as CSV files: a row per group, or a row per run."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from ahac.core.files import atomic_write
from ahac.core.text import csv_cell
from ahac.experiments.compare import Comparison, comparison_points
from ahac.experiments.run_files import RunFiles

__all__ = ["run_rows", "write_groups", "write_runs"]

Row = dict[str, object]


def write_groups(path: Path, groups: Sequence[Comparison]) -> None:
    """A row per group, with all digits; seeds are separated by spaces, what is not known is nan."""
    rows: list[Row] = []
    for group in groups:
        row: Row = {**asdict(group), "seeds": " ".join(map(str, group.seeds))}
        del row["at_steps"], row["at_seconds"]
        row |= {_column("env_steps", x): value for x, value in group.at_steps.items()}
        rows.append(row | {_column("seconds", x): value for x, value in group.at_seconds.items()})
    _write(path, rows)


def write_runs(
    path: Path, groups: Mapping[str, list[RunFiles]], at_steps: Sequence[float] = (), at_seconds: Sequence[float] = ()
) -> None:
    """A row per run, numbers to five digits; what is not known is empty."""
    _write(path, run_rows(groups, at_steps, at_seconds))


def run_rows(
    groups: Mapping[str, list[RunFiles]], at_steps: Sequence[float] = (), at_seconds: Sequence[float] = ()
) -> list[Row]:
    """What is known of each run, by column; returns are those in training at the given places, or at `places`."""
    wanted = {
        "env_steps": comparison_points(groups, "env_steps", at_steps),
        "seconds": comparison_points(groups, "seconds", at_seconds),
    }
    return [_row(group, run, wanted) for group, records in groups.items() for run in records]


def _row(group: str, run: RunFiles, wanted: Mapping[str, Mapping[str, Sequence[float]]]) -> Row:
    """Of one run, with returns at the places of its task on each axis."""
    found = run.evaluation or {}
    numbers = {
        "seconds": run.last("seconds"),
        "compile_seconds": run.last("compile_seconds"),
        "horizon_mean": run.mean("horizon"),
        "horizon_end": run.last("horizon"),
        "critic_epochs_mean": run.mean("critic_epochs"),
        "evaluation_mean": found.get("mean", math.nan),
        "evaluation_iqm": found.get("iqm", math.nan),
        **{
            _column(axis, x): run.return_at(axis, x)
            for axis, chosen in wanted.items()
            for x in chosen[run.settings["task"]]
        },
    }
    return {
        "run": run.folder.name,
        "group": group,
        "seed": run.settings["seed"],
        "iterations": int(run.last("iteration")),
        "env_steps": int(run.last("env_steps")),
        **{name: "" if math.isnan(x) else f"{x:.5g}" for name, x in numbers.items()},
    }


def _column(axis: str, place: float) -> str:
    """Name of a column of returns: return_at_2.5M_steps, return_at_30_s."""
    if axis == "seconds":
        return f"return_at_{place:.10g}_s"
    return f"return_at_{place / 1e6:.10g}M_steps" if place % 1e5 == 0 else f"return_at_{place:.10g}_steps"


def _write(path: Path, rows: Sequence[Row]) -> None:
    """All columns that any row has, in their order. Names are written so that spreadsheets do not run them."""
    with atomic_write(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)
