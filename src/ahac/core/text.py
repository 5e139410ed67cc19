"""Text from outside, such as names of folders and robots, made safe to print and to write into tables."""

from __future__ import annotations

__all__ = ["csv_cell", "printable"]

FORMULA_STARTS = ("=", "+", "-", "@")
"""First characters from which spreadsheets take a cell for a formula."""


def printable(text: str, keep: str = "") -> str:
    r"""The text with escapes (`\x1b`, `\u202e`, ...) in place of characters that cannot be printed.

    These are control characters, invisible and direction marks, separators other than the space, and bytes of file
    names that are not text. Characters in `keep` stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def csv_cell(value: object) -> object:
    """What to write into a cell of a CSV file: numbers as they are, text so that no spreadsheet runs it as a formula.

    Text that begins with `=`, `+`, `-` or `@` and is no number gets an apostrophe in front.
    """
    if not isinstance(value, str):
        return value
    shown = printable(value)
    return f"'{shown}" if shown.lstrip().startswith(FORMULA_STARTS) and not _is_number(shown) else shown


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
