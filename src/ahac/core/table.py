"""Plain-text tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

__all__ = ["table_lines"]


def table_lines(header: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Return a table as lines of text, columns two spaces apart.

    Args:
        header: Column titles.
        rows: Cells, one per column.
        left: Indices of the left-aligned columns; the others are right-aligned, as suits numbers.
    """
    table = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]

    def line(row: Sequence[str]) -> str:
        cells = zip(row, widths, strict=True)
        return "  ".join(c.ljust(w) if k in left else c.rjust(w) for k, (c, w) in enumerate(cells)).rstrip()

    return [line(row) for row in table]
