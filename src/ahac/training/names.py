"""Validation of run names, which serve as folder names and appear in terminals, tables and plots."""

from __future__ import annotations

from pathlib import Path

from ahac.core.errors import InputError

__all__ = ["check_folder_name", "check_name"]

LONGEST = 200
"""Maximum size of a name in bytes. File systems allow 255; numbers and file extensions are appended."""


def check_folder_name(name: str, separators: str = "/") -> None:
    """Raise an InputError if a name contains a path."""
    if name in (".", "..") or Path(name).name != name or any(mark in name for mark in separators):
        raise InputError(
            f"name must be a folder name without a path, got {name!r}; choose the parent folder with `out`"
        )


def check_name(name: str) -> None:
    """Raise an InputError if a new run cannot have this name."""
    check_folder_name(name, "/\\")
    if not name.isprintable():
        raise InputError(f"name must have printable characters only, got {name!r}; rename the run")
    if name.startswith("."):
        raise InputError(f"name must not begin with a dot, got {name!r}: hidden folders are not listed as runs")
    if (size := len(name.encode())) > LONGEST:
        raise InputError(f"name must have at most {LONGEST} bytes, got {size}: {name[:40]!r}...; shorten it")
