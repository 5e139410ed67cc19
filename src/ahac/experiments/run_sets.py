"""Folders of runs as they are given to a command: which run folders they hold, and which of those cannot be used."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from ahac.core.errors import InputError
from ahac.experiments.run_files import RunFiles, find_runs, read_run

__all__ = ["display_names", "list_runs", "read_usable_run", "unused_runs"]


def list_runs(folders: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return all run folders in these folders, each once; raise an InputError for a folder without any."""
    paths: dict[Path, None] = {}
    for folder in map(Path, folders):
        if not (found := find_runs(folder)):
            raise InputError(f"{folder} is neither a run nor a folder of runs: there is no config.json in or below it")
        paths |= dict.fromkeys(path.resolve() for path in found)
    return list(paths)


def read_usable_run(folder: Path) -> RunFiles:
    """Read a run; raise an InputError if a file in it is damaged, or it has no completed iteration."""
    run = read_run(folder)
    if not run.rows:
        raise InputError("it has no completed iteration")
    return run


def unused_runs(folders: Iterable[str | os.PathLike[str]], used: Collection[Path]) -> dict[Path, str]:
    """Return the run folders that are not among the used ones, and why each cannot be used."""
    reasons: dict[Path, str] = {}
    for path in list_runs(folders):
        if path in used:
            continue
        try:
            read_usable_run(path)
        except InputError as error:
            reasons[path] = str(error)
        else:
            reasons[path] = "it changed while it was read"
    return reasons


def display_names(folders: Collection[Path]) -> dict[Path, str]:
    """Return unique names of run folders: the name of the folder, or the full path where several have that name."""
    counts: dict[str, int] = {}
    for folder in folders:
        counts[folder.name] = counts.get(folder.name, 0) + 1
    return {folder: folder.name if counts[folder.name] == 1 else str(folder) for folder in folders}
