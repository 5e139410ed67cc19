"""Text for people: external names made safe to print and to write to tables, lists of names, and suggestions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

__all__ = ["csv_cell", "listed", "printable", "suggestion"]

LISTED = 6
"""A message lists at most this many names."""

FORMULA_STARTS = ("=", "+", "-", "@")
"""First characters by which spreadsheets recognize a formula."""


def printable(text: str, keep: str = "") -> str:
    r"""Return the text with unprintable characters replaced by escapes (`\x1b`, `\u202e`, ...).

    Unprintable are control characters, invisible and direction marks, separators other than the space, and undecodable
    bytes of file names. Characters in `keep` are not escaped.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def listed(names: Sequence[str]) -> str:
    """Return names separated by commas; of a long list, the first ones and how many follow."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean NAME?)" with the known name closest to a misspelled one; "" if none is close."""
    spellings = {other.casefold(): other for other in known if other != name}
    close = get_close_matches(str(name).casefold(), list(spellings), n=1)
    return f" (did you mean {spellings[close[0]]}?)" if close else ""


def csv_cell(value: object) -> object:
    """Return a value for a CSV cell that no spreadsheet runs as a formula.

    Text that begins with `=`, `+`, `-` or `@` and is not a number is prefixed with an apostrophe.
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.lstrip().startswith(FORMULA_STARTS) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
