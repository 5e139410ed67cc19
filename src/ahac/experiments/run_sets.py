"""Runs as they are given to a command: which runs folders and archives hold, and which of those cannot be used."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ahac.core.errors import InputError
from ahac.core.text import listed
from ahac.experiments.archives import is_archive, unpack
from ahac.experiments.run_files import RunFiles, find_runs, read_run

__all__ = ["RunSet", "display_names", "list_runs"]

logger = logging.getLogger("ahac")


class RunSet:
    """Runs that are read one by one; those that cannot be used are skipped with a warning.

    Args:
        folders: Run folders, folders of run folders, or archives of runs, which come last. The run RUN of an archive
            FILE.tar.xz has the path FILE.tar.xz/RUN.
        columns: Columns of metrics.csv to read, as in `read_run`.
    """

    def __init__(self, folders: Iterable[str | os.PathLike[str]], columns: Collection[str] | None = None) -> None:
        given = [Path(folder) for folder in folders]
        archives = [path for path in given if is_archive(path)]
        others = [path for path in given if path not in archives]
        paths = list_runs(others) if others or not archives else []
        self._sources = dict(zip(paths, paths, strict=True))
        for archive in archives:
            self._sources |= self._unpack(archive)
        self.paths = list(self._sources)
        self.columns = columns
        self.skipped: dict[Path, str] = {}
        """Run folders that could not be used so far, and why."""

    def read(self) -> Iterator[RunFiles]:
        """Yield the runs that can be used; raise an InputError at the end if there was none."""
        self.skipped.clear()
        for path in self.paths:
            try:
                run = read_run(self._sources[path], self.columns)
                reason = "" if run.rows else "it has no completed iteration"
            except InputError as error:
                reason = str(error).replace(str(self._sources[path]), str(path))
            else:
                if not reason:
                    yield replace(run, folder=path)
                    continue
            self.skipped[path] = reason
            logger.warning("%s is skipped: %s", path, reason)
        if len(self.skipped) == len(self.paths):
            path, reason = next(iter(self.skipped.items()))
            more = f"; and {len(self.skipped) - 1} more" if len(self.skipped) > 1 else ""
            raise InputError(f"none of the runs can be used: {path.name}: {reason}{more}")

    def _unpack(self, archive: Path) -> dict[Path, Path]:
        """Unpack an archive for as long as this object exists; return the folders of its runs by the runs' paths."""
        try:
            folder = Path(tempfile.mkdtemp(prefix="ahac-runs-"))
        except OSError as error:
            raise InputError(
                f"{archive} cannot be unpacked: {error.strerror or error}; set TMPDIR to a folder with free space"
            ) from error
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        unpack(archive, folder)
        if not (runs := find_runs(folder)):
            raise InputError(f"{archive} holds no runs; `ahac collect RUN [RUN ...] --out FILE.tar.xz` writes archives")
        return {archive.resolve() / run.name: run for run in runs}


def list_runs(folders: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return all run folders in these folders, each once; raise an InputError for a folder without any.

    Runs further down are not included; a warning names the folders that hold some.
    """
    paths: dict[Path, Path] = {}  # a link keeps its name, as it decides the run's group
    deeper: dict[Path, list[Path]] = {}
    for folder in map(Path, folders):
        found = find_runs(folder)
        inner = {} if found == [folder] else _deeper_runs(folder)
        if not found:
            archives = [path for path in folder.iterdir() if is_archive(path)] if folder.is_dir() else []
            raise InputError(
                f"{folder} is neither a run nor a folder of runs: there is no config.json in it or one level below"
                + _named("folders of runs", inner)
                + _named("archives", sorted(archives))
            )
        for path in found:
            named = Path(os.path.abspath(path))  # without "..", but with the name of a link
            paths.setdefault(path.resolve(), named.parent.resolve() / named.name)
        deeper |= inner
    if not paths:
        raise InputError("expected at least one run folder, folder of runs or archive, got none")
    left_out = [str(path) for path, runs in deeper.items() if not paths.keys() & {run.resolve() for run in runs}]
    if left_out:
        logger.warning("not included, as they are further down: the runs in %s; name these folders", listed(left_out))
    return list(paths.values())


def _named(kind: str, paths: Collection[Path]) -> str:
    """Return the part of a message that names what a folder holds; "" if there is none."""
    return f"; it holds {kind}, which you can name: {listed([str(path) for path in paths])}" if paths else ""


def _deeper_runs(folder: Path) -> dict[Path, list[Path]]:
    """Return the folders of runs in a folder, without hidden ones, and their runs."""
    inner = sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []
    return {path: runs for path in inner if (runs := find_runs(path)) not in ([], [path])}


def display_names(folders: Collection[Path]) -> dict[Path, str]:
    """Return unique names of run folders: the name of the folder, or the full path where several have that name."""
    counts: dict[str, int] = {}
    for folder in folders:
        counts[folder.name] = counts.get(folder.name, 0) + 1
    return {folder: folder.name if counts[folder.name] == 1 else str(folder) for folder in folders}
