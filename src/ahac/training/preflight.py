"""Checks and folder creation before a run starts."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from ahac.algos.registry import check_process_group, check_settings
from ahac.core.config import as_restored
from ahac.core.device import check_run_device
from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.errors import InputError
from ahac.core.files import (
    OLD_TEMPORARY,
    TEMPORARY,
    explain_write_errors,
    is_abandoned,
    make_folder,
    sync_folder,
    temporary_name,
)
from ahac.envs import Task, make_task
from ahac.training.config import RunConfig
from ahac.training.names import check_name
from ahac.training.task_source import COPY

__all__ = [
    "claim_folder",
    "clear_leftovers",
    "explain_missing_run",
    "free_names",
    "is_leftover",
    "new_folder",
    "validate_config",
]

logger = logging.getLogger("ahac")

SEEDS = 2**63
"""Seeds are less than this: signed 64-bit numbers."""


def validate_config(config: RunConfig, ranks: ProcessGroup = SINGLE_PROCESS, task: Task | None = None) -> RunConfig:
    """Return the settings as config.json will restore them; raise an InputError if no machine could run them.

    Args:
        config: Settings of a run.
        ranks: Processes that train together.
        task: The task, if it is loaded already.
    """
    if config.name:
        check_name(config.name)
    if task is None:
        make_task(config.task, config.variant)
    check_run_device(config.device)
    check_process_group(config.algorithm, ranks)
    check_settings(config.algo, config.algorithm)
    if config.seed >= SEEDS:
        raise InputError(f"seed must be less than 2^63, got {config.seed}")
    return as_restored(config)


@contextmanager
def new_folder(folder: Path) -> Generator[Path, None, None]:
    """Create a temporary folder to fill and rename with `claim_folder`; remove it on exit if it was not renamed."""
    make_folder(folder.parent)
    with explain_write_errors(folder):
        _remove_unfinished(folder.parent)
        temporary = temporary_name(folder)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_unfinished(folder: Path) -> None:
    """Remove temporary run folders whose process was killed before renaming them."""
    for path in folder.iterdir():
        if not path.is_symlink() and path.is_dir() and is_abandoned(path):
            names = {inner.name for inner in path.iterdir() if not TEMPORARY.fullmatch(inner.name)}
            if names <= {"config.json", "manifest.json", COPY}:
                shutil.rmtree(path, ignore_errors=True)


def free_names(base: Path) -> Iterator[Path]:
    """Yield the folders NAME, NAME-2, NAME-3, ... that do not exist or are empty."""
    for k in range(1, 10_000):
        folder = base if k == 1 else base.with_name(f"{base.name}-{k}")
        if not os.path.lexists(folder) or (folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir())):
            yield folder


def claim_folder(temporary: Path, folder: Path) -> bool:
    """Rename a filled temporary folder; return False if another process has taken the name."""
    try:
        temporary.rename(folder)  # replaces an empty folder only
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EBUSY):
            return False
        raise
    sync_folder(folder.parent)
    return True


def is_leftover(folder: Path) -> bool:
    """Return whether a folder holds only the files of a run that was killed before it wrote its config.json."""
    return folder.is_dir() and not folder.is_symlink() and all(_is_leftover_file(path) for path in folder.iterdir())


def clear_leftovers(folder: Path) -> None:
    """Remove these files, so that a new run can use the folder."""
    for path in list(folder.iterdir()):
        if _is_leftover_file(path):
            path.unlink()


def _is_leftover_file(path: Path) -> bool:
    temporary = TEMPORARY.fullmatch(path.name) or OLD_TEMPORARY.fullmatch(path.name)
    expected = path.name in ("manifest.json", ".lock", COPY) or temporary is not None
    return expected and path.is_file() and not path.is_symlink()


def explain_missing_run(folder: Path) -> str:
    """Return why a folder without config.json is not a run, and what to do."""
    if not folder.is_dir():
        return "the folder does not exist; `ahac list runs` lists the runs in ./runs, --out selects another folder"
    if runs := sorted(path.parent.name for path in folder.glob("*/config.json")):
        return f"it has no config.json, but contains runs: {', '.join(runs[:5])}{', ...' * (len(runs) > 5)}"
    if (folder / "checkpoints").is_dir():
        return "its config.json is missing; copy one from a run with the same settings and set `seed` and `name` in it"
    return "it has no config.json; create a run with `ahac train`"
