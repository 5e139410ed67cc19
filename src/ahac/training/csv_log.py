"""metrics.csv: one row of numbers per iteration, written so that a kill at any moment costs one row at most."""

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

from ahac.core.files import atomic_write, explain_write_errors, set_aside

__all__ = ["CsvLog", "read_csv"]

logger = logging.getLogger("ahac")


class CsvLog:
    """One row per iteration. New columns may come later, and rows after a point may be dropped."""

    def __init__(self, path: Path, keep_until: int = 0, checksum: str = "") -> None:
        """Append to the table of `path`; rows after iteration `keep_until` are dropped.

        The rows that stay should have this checksum, if one is given. A damaged table is kept beside the new one.
        """
        self.path = path
        found = _read(path) if path.is_file() else CsvContents([], [])
        kept = [row for row in found.rows if row["iteration"] <= keep_until]
        self.rows = _in_order(kept)
        self.checksum = ""
        for row in self.rows:
            self.checksum = _chained(self.checksum, row)
        damaged = any(line != found.incomplete for line in found.damaged) or kept != self.rows
        # A table that has lost rows once matches the checksum of later checkpoints.
        if damaged or (checksum != self.checksum if checksum else len(kept) != keep_until):
            _keep_damaged(path, keep_until - len(self.rows), keep_until)
        self.columns: list[str] = []
        for row in self.rows:
            self.columns = _merged(self.columns, row)
        self._rewrite()

    def write(self, row: Mapping[str, float]) -> None:
        """Append, and start the table anew where a column is new."""
        self.rows.append(dict(row))
        self.checksum = _chained(self.checksum, row)
        if not row.keys() <= set(self.columns):
            self.columns = _merged(self.columns, row)
            self._rewrite()
            return
        with explain_write_errors(self.path), self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.columns).writerow(row)

    def sync(self) -> None:
        """Make sure that every row is on disk."""
        with explain_write_errors(self.path), self.path.open("rb") as file:
            os.fsync(file.fileno())

    def close(self) -> None:
        """Every row is written already."""

    def _rewrite(self) -> None:
        with atomic_write(self.path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(self.rows)


def _merged(columns: list[str], row: Mapping[str, float]) -> list[str]:
    """With the columns of a row, new ones where the row has them: a table looks the same whenever they came."""
    merged, place = list(columns), 0
    for name in row:
        if name not in merged:
            merged.insert(place, name)
        place = merged.index(name) + 1
    return merged


class CsvContents(NamedTuple):
    """What could be read of a table."""

    rows: list[dict[str, float]]
    damaged: list[int]
    """Numbers of the lines that could not be read."""
    incomplete: int = 0
    """Number of the last line, if it has no end: a killed process leaves that. 0 if there is none."""


def read_csv(path: Path) -> list[dict[str, float]]:
    """Rows of a table of numbers; empty cells are left out, and so are damaged lines, with a warning."""
    found = _read(path)
    for number in found.damaged:
        logger.warning("line %d of %s is damaged and left out", number, path)
    return found.rows


def _read(path: Path) -> CsvContents:
    """What can be read of a table.

    A process that was killed while it wrote leaves half a line at the end, whose numbers may be cut off: a line counts
    only with the end of line behind it.
    """
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        header, *lines = file.read().split("\n") or [""]
    columns, end = _cells(header), len(lines) + 1
    rows, damaged = [], []
    for number, line in enumerate(lines, start=2):
        if number == end and not line:  # behind the last end of line
            continue
        row = _row(columns, line)
        if row is None or number == end:
            damaged.append(number)
        else:
            rows.append(row)
    return CsvContents(rows, damaged, end if lines and lines[-1] else 0)


def _keep_damaged(path: Path, lost: int, wanted: int) -> None:
    """Keep a damaged table beside the new one, and say so."""
    if not os.path.lexists(path):
        logger.warning("%s is missing: the rows of %d iterations are lost", path, wanted)
        return
    kept = set_aside(path, "damaged", copy=path.is_file())
    what = f"lacks {lost} of {wanted} rows" if lost > 0 else "is damaged or was changed"
    logger.warning("%s %s; the old file is kept as %s", path, what, kept.name)


def _chained(checksum: str, row: Mapping[str, float]) -> str:
    """Checksum of the rows so far and one more."""
    text = json.dumps({name: float(value) for name, value in row.items()}, sort_keys=True)
    return hashlib.sha256(f"{checksum}{text}".encode()).hexdigest()


def _in_order(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """Every iteration once, in order."""
    unique = {row["iteration"]: row for row in rows}
    return [unique[k] for k in sorted(unique)]


def _cells(line: str) -> list[str]:
    return line.rstrip("\r").split(",")


def _row(columns: list[str], line: str) -> dict[str, float] | None:
    """The numbers of a line; None where it is no row of this table."""
    cells = _cells(line)
    if len(cells) != len(columns):
        return None
    try:
        row = {name: float(cell) for name, cell in zip(columns, cells, strict=True) if cell}
    except ValueError:
        return None
    iteration = row.get("iteration", math.nan)
    return row if math.isfinite(iteration) and iteration >= 1 and iteration == int(iteration) else None
