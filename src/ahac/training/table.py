"""metrics.csv: one row of numbers per iteration, written so that a kill at any moment costs one row at most."""

from __future__ import annotations

import csv
import logging
from collections.abc import Mapping
from pathlib import Path

from ahac.core.files import replacing

__all__ = ["CsvSink", "read_csv"]

logger = logging.getLogger("ahac")


class CsvSink:
    """One row per iteration. New columns may come later, and rows after a point may be dropped."""

    def __init__(self, path: Path, keep_until: int = 0) -> None:
        """Append to the table of `path`, of which rows beyond iteration `keep_until` are taken back."""
        self.path = path
        found = read_csv(path) if path.exists() else []
        self.rows = [row for row in found if row["iteration"] <= keep_until]
        self.columns: list[str] = []
        for row in self.rows:
            self.columns = _merged(self.columns, row)
        self._rewrite()

    def write(self, row: Mapping[str, float]) -> None:
        """Append, and start the table anew where a column is new."""
        self.rows.append(dict(row))
        if not row.keys() <= set(self.columns):
            self.columns = _merged(self.columns, row)
            self._rewrite()
            return
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.columns).writerow(row)

    def close(self) -> None:
        """Every row is written already."""

    def _rewrite(self) -> None:
        with replacing(self.path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
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


def read_csv(path: Path) -> list[dict[str, float]]:
    """Rows of a table of numbers; empty cells are left out, and so are damaged lines, with a warning.

    A process that was killed while it wrote leaves half a line at the end. Its numbers may be cut off in the middle:
    a line counts only with the end of line behind it.
    """
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        header, *lines = file.read().split("\n") or [""]
    columns = _cells(header)
    rows = []
    for number, line in enumerate(lines, start=2):
        if number == len(lines) + 1 and not line:  # behind the last end of line
            continue
        row = _row(columns, line)
        if row is None or number == len(lines) + 1:
            logger.warning("line %d of %s is damaged and left out", number, path)
            continue
        rows.append(row)
    return rows


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
    return row if "iteration" in row else None
