"""Names of runs: each is the name of a folder, and is shown in terminals, tables and pictures."""

from __future__ import annotations

from pathlib import Path

from ahac.core.errors import InputError

__all__ = ["check_folder_name", "check_name"]

LONGEST = 200
"""Bytes of a name. File systems take 255, and numbers and endings are added to it."""


def check_folder_name(name: str, separators: str = "/") -> None:
    """Refuse a name that is a path."""
    if name in (".", "..") or Path(name).name != name or any(mark in name for mark in separators):
        raise InputError(
            f"name must be a folder name without a path, got {name!r}; choose the parent folder with `out`"
        )


def check_name(name: str) -> None:
    """Refuse a name that a new run cannot have."""
    check_folder_name(name, "/\\")
    if not name.isprintable():
        raise InputError(f"name must have printable characters only, got {name!r}; rename the run")
    if name.startswith("."):
        raise InputError(f"name must not begin with a dot, got {name!r}: hidden folders are not listed as runs")
    if (size := len(name.encode())) > LONGEST:
        raise InputError(f"name must have at most {LONGEST} bytes, got {size}: {name[:40]!r}...; shorten it")
