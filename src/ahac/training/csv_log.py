"""metrics.csv: one row of metrics per iteration. A process killed at any moment loses at most one row."""

from __future__ import annotations

import csv
import hashlib
import json
import logging
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ahac.core.files import atomic_write, explain_write_errors, set_aside
from ahac.core.text import listed

__all__ = ["CsvLog", "read_columns", "read_csv"]

logger = logging.getLogger("ahac")

OLD_COLUMNS = {"critic_passes": "critic_epochs"}
"""Columns of version 0.1.0 by their old names. Files keep the old column for old rows, whose checksums include it."""


class CsvLog:
    """CSV file with one row per iteration. Later rows may add columns; resuming drops rows after the checkpoint."""

    def __init__(self, path: Path, keep_until: int = 0, checksum: str = "") -> None:
        """Open the file at `path` for appending and drop rows after iteration `keep_until`.

        If `checksum` is given, the remaining rows should match it. A damaged file is kept under another name next to
        the new one.
        """
        self.path = path
        contents = _read(path) if path.is_file() else CsvContents([], [])
        kept = [row for row in contents.rows if row["iteration"] <= keep_until]
        self.rows = _in_order(kept)
        self.checksum = ""
        for row in self.rows:
            self.checksum = _chained(self.checksum, row)
        damaged = any(line != contents.incomplete for line in contents.damaged) or kept != self.rows
        # Once a file has lost rows, later checkpoints store the checksum of the shorter file: the row count may differ.
        if damaged or (checksum != self.checksum if checksum else len(kept) != keep_until):
            _keep_damaged(path, keep_until - len(self.rows), keep_until)
        self.columns: list[str] = []
        for row in self.rows:
            self.columns = _merged(self.columns, row)
        self._rewrite()

    def write(self, row: Mapping[str, float]) -> None:
        """Append a row; rewrite the file if the row adds a column."""
        self.rows.append(dict(row))
        self.checksum = _chained(self.checksum, row)
        if not row.keys() <= set(self.columns):
            self.columns = _merged(self.columns, row)
            self._rewrite()
            return
        with explain_write_errors(self.path), self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.columns).writerow(row)

    def sync(self) -> None:
        """Flush all rows to disk."""
        with explain_write_errors(self.path), self.path.open("rb") as file:
            os.fsync(file.fileno())

    def _rewrite(self) -> None:
        with atomic_write(self.path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(self.rows)


def _merged(columns: list[str], row: Mapping[str, float]) -> list[str]:
    """Insert a row's new columns at their positions in the row, so that the order is the same whenever they appear."""
    merged = list(columns)
    position = 0
    for name in row:
        if name not in merged:
            merged.insert(position, name)
        position = merged.index(name) + 1
    return merged


class CsvContents(NamedTuple):
    """Readable content of a CSV file."""

    rows: list[dict[str, float]]
    damaged: list[int]
    """Numbers of the lines that could not be parsed."""
    incomplete: int = 0
    """Number of the last line if it lacks a newline, as a killed process leaves it; otherwise 0."""


def read_csv(path: Path) -> list[dict[str, float]]:
    """Return the rows of a CSV file of numbers, without empty cells and with the current names of columns.

    Damaged lines are skipped with a warning.
    """
    contents = _read(path)
    if damaged := contents.damaged:
        lines = listed([str(number) for number in damaged])
        several = len(damaged) > 1
        logger.warning("line%s %s of %s %s damaged and skipped", "s" * several, lines, path, "are" if several else "is")
    return [{OLD_COLUMNS.get(name, name): value for name, value in row.items()} for row in contents.rows]


def read_columns(path: Path) -> dict[str, npt.NDArray[np.float64]]:
    """Return the columns of a CSV file of numbers, with NaN for empty cells; no columns if there is no file."""
    rows = read_csv(path) if path.is_file() else []
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, math.nan) for row in rows]) for name in names}


def _read(path: Path) -> CsvContents:
    """Read a CSV file as far as it can be parsed.

    A process killed during a write may leave a partial last line with truncated numbers, so a line without a newline
    does not count.
    """
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        header, *lines = file.read().split("\n") or [""]
    columns = _cells(header)
    end = len(lines) + 1
    rows: list[dict[str, float]] = []
    damaged: list[int] = []
    for number, line in enumerate(lines, start=2):
        if number == end and not line:  # after the last newline
            continue
        row = _row(columns, line)
        if row is None or number == end:
            damaged.append(number)
        else:
            rows.append(row)
    return CsvContents(rows, damaged, end if lines and lines[-1] else 0)


def _keep_damaged(path: Path, missing: int, expected: int) -> None:
    """Keep a damaged file under another name and warn; `missing` of the `expected` rows are gone."""
    if not os.path.lexists(path):
        logger.warning("%s is missing: the rows of %d iterations are lost", path, expected)
        return
    kept = set_aside(path, "damaged", copy=path.is_file())
    state = f"lacks {missing} of {expected} rows" if missing > 0 else "is damaged or was changed"
    logger.warning("%s %s; the old file is kept as %s", path, state, kept.name)


def _chained(checksum: str, row: Mapping[str, float]) -> str:
    """Return the checksum of the previous rows extended by one row."""
    text = json.dumps({name: float(value) for name, value in row.items()}, sort_keys=True)
    return hashlib.sha256(f"{checksum}{text}".encode()).hexdigest()


def _in_order(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return each iteration once, in ascending order."""
    unique = {row["iteration"]: row for row in rows}
    return [unique[k] for k in sorted(unique)]


def _cells(line: str) -> list[str]:
    return line.rstrip("\r").split(",")


def _row(columns: list[str], line: str) -> dict[str, float] | None:
    """Parse a line; return None if it is not a valid row."""
    cells = _cells(line)
    if len(cells) != len(columns):
        return None
    try:
        row = {name: float(cell) for name, cell in zip(columns, cells, strict=True) if cell}
    except ValueError:
        return None
    iteration = row.get("iteration", math.nan)
    return row if math.isfinite(iteration) and iteration >= 1 and iteration == int(iteration) else None
