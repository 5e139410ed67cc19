# pyright: reportMissingImports=false
"""Many runs in one file: their metrics as a table, CSV or Parquet, or an archive for comparisons and reports."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ahac.core.checks import check_int
from ahac.core.config import flatten
from ahac.core.errors import InputError
from ahac.core.files import atomic_write
from ahac.core.text import csv_cell, printable
from ahac.experiments.archives import COLUMNS, COUNTS, SUFFIX, write_archive
from ahac.experiments.run_files import RunFiles
from ahac.experiments.run_sets import RunSet, display_names

__all__ = ["FORMATS", "KEYS", "archive_runs", "write_table"]

CSV, PARQUET = ".csv", ".parquet"
FORMATS = (CSV, PARQUET)
"""Suffixes of tables."""
KEYS = ("run", "task", "algo", "preset", "seed")
"""First columns of every row."""
LAST = (*COUNTS, "seconds", "compile_seconds", "episode_return")
"""Columns of metrics.csv whose last value is in the table of one row per run."""
EVALUATION = ("episodes", "mean", "iqm", "length")
"""Entries of evaluation.json in that table, besides the interval."""
Rows = Mapping[str, Sequence[Any] | np.ndarray]
"""Rows of one run by column; arrays of numbers with NaN for missing ones, which take little memory, and lists."""


def write_table(folders: Iterable[str | os.PathLike[str]], out: Path, *, final: bool = False, every: int = 1) -> int:
    """Write a table of runs and return the number of its rows.

    Runs that cannot be used are skipped with a warning. Numbers have full precision; missing and non-finite ones are
    empty cells. A run is named by its folder, or by the full path where several folders have the same name.

    Args:
        folders: Run folders, folders of run folders, or archives of runs.
        out: File to write; its suffix, .csv or .parquet, selects the format.
        final: One row per run, with its last iteration, evaluation and settings, instead of a row per iteration.
        every: Keep the iterations that are multiples of it, and the last one; 1 with `final`.
    """
    if check_int("every", every, 1) > 1 and final:
        raise InputError(f"every must be 1 with final, which has one row per run, got {every}; omit one of them")
    if out.suffix not in FORMATS:
        raise InputError(
            f"a table must be a {' or '.join(FORMATS)} file, got {str(out)!r}; change the suffix, to {SUFFIX} for an "
            "archive of runs"
        )
    if out.suffix == PARQUET:
        _import_pyarrow()  # before anything is read
    runs = RunSet(folders, LAST if final else None)
    names = display_names(runs.paths)
    parts = [(_final_row if final else _metric_rows)(run, names[run.folder]) for run in _thinned(runs, every)]
    (_write_csv if out.suffix == CSV else _write_parquet)(out, parts)
    return sum(len(part[KEYS[0]]) for part in parts)


def archive_runs(folders: Iterable[str | os.PathLike[str]], out: Path, *, every: int = 1) -> int:
    """Write an archive of runs, which `ahac compare`, `ahac report` and `ahac collect` read like a folder of runs.

    It has no checkpoints, and only the metrics that reports show. Runs that cannot be used are skipped with a warning.

    Args:
        folders: Run folders, folders of run folders, or archives.
        out: File to write; its name must end with .tar.xz.
        every: Keep the iterations that are multiples of it, and the last one.

    Returns:
        The number of runs.
    """
    check_int("every", every, 1)
    if not out.name.endswith(SUFFIX):
        raise InputError(f"an archive must be a {SUFFIX} file, got {str(out)!r}; change the suffix")
    runs: dict[str, RunFiles] = {}
    for run in _thinned(RunSet(folders, COLUMNS), every):
        if run.folder.name in runs:
            raise InputError(
                f"several runs have the name {run.folder.name!r}, but names in an archive are distinct; write one "
                "archive for each folder of runs"
            )
        runs[run.folder.name] = run
    write_archive(out, runs)
    return len(runs)


def _thinned(runs: RunSet, every: int) -> Iterator[RunFiles]:
    """Yield the runs that can be used, with fewer iterations."""
    return (run.thinned(every) for run in runs.read())


def _metric_rows(run: RunFiles, name: str) -> Rows:
    """Return the rows of a run's metrics. A column with the name of a key is called metrics.NAME."""
    # Rows lack empty cells; the fullest one has the order of metrics.csv.
    metrics = dict.fromkeys(metric for row in sorted(run.rows, key=len, reverse=True) for metric in row)
    keys = {key: [value] * len(run.rows) for key, value in _keys(run, name).items()}
    columns = {
        f"metrics.{metric}" if metric in KEYS else metric: np.array([row.get(metric, math.nan) for row in run.rows])
        for metric in metrics
    }
    return {**keys, **columns}


def _final_row(run: RunFiles, name: str) -> Rows:
    """Return the one row of a run: its keys, last metrics, evaluation and all other settings."""
    evaluation = run.evaluation or {}
    low, high = evaluation.get("interval", (None, None))
    settings = flatten({key: value for key, value in run.settings.items() if key not in KEYS})
    row = {
        **_keys(run, name),
        "complete": run.complete,
        **{metric: run.last(metric) for metric in LAST},
        **{f"evaluation.{entry}": evaluation.get(entry) for entry in EVALUATION},
        "evaluation.low": low,
        "evaluation.high": high,
        **{f"settings.{setting}": value for setting, value in settings.items()},
    }
    return {column: [value] for column, value in row.items()}


def _keys(run: RunFiles, name: str) -> dict[str, Any]:
    return {"run": name, **{key: run.settings[key] for key in KEYS[1:]}}


def _columns(parts: Sequence[Rows]) -> list[str]:
    """Return the union of all columns in order of appearance."""
    return list(dict.fromkeys(name for part in parts for name in part))


def _cells(part: Rows, column: str) -> list[Any]:
    """Return the cells of a column: None where there is no finite number, integers for counts, JSON for lists."""
    if column not in part:
        return [None] * len(part[KEYS[0]])
    values = part[column]
    if not isinstance(values, np.ndarray):
        return [_cell(column, value) for value in values]
    numbers = [int(x) for x in values.tolist()] if column in COUNTS else values.tolist()  # counts are never missing
    return [x if known else None for x, known in zip(numbers, np.isfinite(values).tolist(), strict=True)]


def _cell(column: str, value: Any) -> bool | float | str | None:  # noqa: ANN401 - any setting
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if column in COUNTS else value
    return value if value is None or isinstance(value, bool | int | str) else json.dumps(value)


def _write_csv(path: Path, parts: Sequence[Rows]) -> None:
    """Write a CSV file. Names that spreadsheets would run as formulas are escaped."""
    columns = _columns(parts)
    with atomic_write(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(csv_cell, columns))
        for part in parts:
            writer.writerows(zip(*(_csv_cells(part, column) for column in columns), strict=True))


def _csv_cells(part: Rows, column: str) -> list[Any]:
    """Return the cells of a column for a CSV file; numbers and None stay as they are, which is much faster."""
    cells = _cells(part, column)
    return cells if isinstance(part.get(column, ()), np.ndarray) else [_csv_text(cell) for cell in cells]


def _csv_text(cell: bool | float | str | None) -> object:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return "" if cell is None else csv_cell(cell)


def _write_parquet(path: Path, parts: Sequence[Rows]) -> None:
    """Write a Parquet file. Columns hold booleans, 64-bit integers, 64-bit floats or, if types are mixed, text."""
    arrow = _import_pyarrow()
    types = {bool: arrow.bool_(), int: arrow.int64(), float: arrow.float64(), str: arrow.string()}
    kinds = {column: _kind(column, [_cells(part, column) for part in parts]) for column in _columns(parts)}
    schema = arrow.schema([(column, types[kind]) for column, kind in kinds.items()])
    tables = [
        arrow.table({column: _converted(_cells(part, column), kind) for column, kind in kinds.items()}, schema=schema)
        for part in parts
    ]
    with atomic_write(path) as unfinished:
        arrow.parquet.write_table(arrow.concat_tables(tables), unfinished)


def _kind(column: str, lists: Sequence[list[Any]]) -> type:
    """Return the type of a column: the one that all cells share, float for whole and other numbers, else text."""
    known = [cell for cells in lists for cell in cells if cell is not None]
    kinds = {type(cell) for cell in known}
    if not known and (column in LAST or column.startswith("evaluation.")):
        return float
    if kinds == {int} and max(map(abs, known)) >= 2**63:
        return str
    if kinds == {int, float}:
        return float
    return kinds.pop() if len(kinds) == 1 else str


def _converted(cells: list[Any], kind: type) -> list[Any]:
    """Return the cells as values of one type; unprintable characters in text as escapes, as in a CSV file."""
    if kind is str:
        texts = [cell if isinstance(cell, str) else _csv_text(cell) for cell in cells]
        return [None if cell is None else printable(str(text)) for cell, text in zip(cells, texts, strict=True)]
    return [None if cell is None else kind(cell) for cell in cells]


def _import_pyarrow() -> Any:  # noqa: ANN401 - an optional package
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            "Parquet files need pyarrow, which is not installed: pip install 'ahac[report]', or write a .csv file"
        ) from error
    return pyarrow
