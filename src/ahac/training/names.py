"""Names of runs: each is the name of a folder, and is shown in terminals, tables and pictures."""

from __future__ import annotations

from pathlib import Path

from ahac.core.errors import InputError

__all__ = ["check_name"]

LONGEST = 200
"""Bytes of a name. File systems take 255, and numbers and endings are added to it."""


def check_name(name: str) -> None:
    """Refuse a name that cannot be that of a run's folder."""
    if "\\" in name or name in (".", "..") or Path(name).name != name:
        raise InputError(
            f"name must be a folder name without a path, got {name!r}; choose the parent folder with `out`"
        )
    if not name.isprintable():
        raise InputError(f"name must have printable characters only, got {name!r}; rename the run")
    if name.startswith("."):
        raise InputError(f"name must not begin with a dot, got {name!r}: hidden folders are not listed as runs")
    if (size := len(name.encode())) > LONGEST:
        raise InputError(f"name must have at most {LONGEST} bytes, got {size}: {name[:40]!r}...; shorten it")
