"""Run folders and files that commands are given, looked up before anything slow is imported."""

from __future__ import annotations

from pathlib import Path

from ahac.core.errors import InputError
from ahac.core.text import suggestion
from ahac.experiments.archives import is_archive

__all__ = ["ROBOT_SUFFIXES", "RUNS", "check_file", "find_run", "find_run_or_archive", "run_names"]

RUNS = Path("runs")
"""Default folder of run folders."""
ROBOT_SUFFIXES = (".xml", ".mjcf", ".urdf")
"""Suffixes of robot files: a copy of those in ahac.sim.model.files, which imports MuJoCo and torch; a test compares."""


def find_run_or_archive(name: str) -> str:
    """Return an archive of runs, or a folder as `find_run` does."""
    if not is_archive(name):
        return find_run(name)
    check_file(name, "an archive of runs, as `ahac collect` writes it")
    return name


def find_run(name: str) -> str:
    """Return a run folder: the given path or, if that does not exist, the run of that name in ./runs."""
    if Path(name).is_dir():
        return name
    if name in (names := run_names()):
        return str(RUNS / name)
    if is_archive(name) and Path(name).is_file():
        raise InputError(
            f"{name} is an archive of runs, which has no checkpoints; expected a run folder. `ahac compare`, "
            "`ahac report` and `ahac collect` read archives"
        )
    raise InputError(
        f"{name} is not a run: the folder does not exist{suggestion(Path(name).name, names)}; `ahac list runs` lists "
        "the runs in ./runs, --out selects another folder"
    )


def run_names() -> list[str]:
    """Return the names of the folders in ./runs, without hidden ones."""
    folders = RUNS.iterdir() if RUNS.is_dir() else ()
    return sorted(path.name for path in folders if path.is_dir() and not path.name.startswith("."))


def check_file(path: str | Path, expected: str) -> None:
    """Raise an InputError if a file does not exist."""
    if not Path(path).is_file():
        raise InputError(f"no file {str(path)!r}; expected {expected}")
