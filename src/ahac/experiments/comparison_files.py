"""Comparisons as CSV files, with a row per group or a row per run."""

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
    """Write a row per group in full precision; seeds are separated by spaces, unknown values are nan."""
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
    """Write a row per run with numbers to five digits; unknown values are empty."""
    _write(path, run_rows(groups, at_steps, at_seconds))


def run_rows(
    groups: Mapping[str, list[RunFiles]], at_steps: Sequence[float] = (), at_seconds: Sequence[float] = ()
) -> list[Row]:
    """Return a row per run, with training returns at the given points; see `comparison_points` for the default."""
    points = {
        "env_steps": comparison_points(groups, "env_steps", at_steps),
        "seconds": comparison_points(groups, "seconds", at_seconds),
    }
    return [_row(group, run, points) for group, runs in groups.items() for run in runs]


def _row(group: str, run: RunFiles, points: Mapping[str, Mapping[str, Sequence[float]]]) -> Row:
    """Return the row of one run, with returns at the points of its task on each axis."""
    evaluation = run.evaluation or {}
    numbers = {
        "seconds": run.last("seconds"),
        "compile_seconds": run.last("compile_seconds"),
        "horizon_mean": run.mean("horizon"),
        "horizon_end": run.last("horizon"),
        "critic_epochs_mean": run.mean("critic_epochs"),
        "evaluation_mean": evaluation.get("mean", math.nan),
        "evaluation_iqm": evaluation.get("iqm", math.nan),
        **{
            _column(axis, x): run.return_at(axis, x)
            for axis, task_points in points.items()
            for x in task_points[run.settings["task"]]
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


def _column(axis: str, point: float) -> str:
    """Return the name of a column of returns: return_at_2.5M_steps, return_at_30_s."""
    if axis == "seconds":
        return f"return_at_{point:.10g}_s"
    return f"return_at_{point / 1e6:.10g}M_steps" if point % 1e5 == 0 else f"return_at_{point:.10g}_steps"


def _write(path: Path, rows: Sequence[Row]) -> None:
    """Write the union of all columns in order of appearance. Escape names that spreadsheets would run as formulas."""
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)
