"""Names of tasks in files, FILE.py:NAME."""

from __future__ import annotations

from pathlib import Path

__all__ = ["is_task_file", "split_task_file"]


def is_task_file(name: str) -> bool:
    """Return whether the name of a task has the form FILE.py:NAME."""
    file, colon, _ = name.rpartition(":")
    return bool(colon) and file.endswith(".py")


def split_task_file(name: str) -> tuple[Path, str]:
    """Return the absolute path of the file and the name of the task in it."""
    file, _, attribute = name.rpartition(":")
    return Path(file).resolve(), attribute
