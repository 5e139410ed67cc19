"""What a run needs before it begins: settings that can be run, a device that is here, a folder of its own."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ahac.algos.recipes import ALGOS, recipe
from ahac.algos.registry import check_process_group
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
from ahac.envs import make_task
from ahac.training.config import RunConfig
from ahac.training.names import check_name

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


def validate_config(config: RunConfig, ranks: ProcessGroup = SINGLE_PROCESS) -> None:
    """Refuse what no run can be made from, whatever the machine."""
    if config.name:
        check_name(config.name)
    make_task(config.task, config.variant)
    check_process_group(config.algorithm, ranks)
    if config.algo in ALGOS:
        wanted = type(recipe(config.task, config.algo).algorithm)
        if type(config.algorithm) is not wanted:
            raise InputError(
                f"algorithm must be a {wanted.__name__} for algo {config.algo!r}, got a {type(config.algorithm).__name__}; "
                "take the recipe's, ahac.training.api.configure(task, algo).algorithm, and replace what differs"
            )


@contextmanager
def new_folder(wanted: Path) -> Iterator[Path]:
    """A temporary folder to fill; `claim` gives it its name, and it is removed if that does not happen."""
    make_folder(wanted.parent)
    with explain_write_errors(wanted):
        _remove_unfinished(wanted.parent)
        temporary = temporary_name(wanted)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_unfinished(folder: Path) -> None:
    """Remove the folders of runs whose process was killed before they had their name."""
    for path in folder.iterdir():
        if not path.is_symlink() and path.is_dir() and is_abandoned(path):
            names = {inner.name for inner in path.iterdir() if not TEMPORARY.fullmatch(inner.name)}
            if names <= {"config.json", "manifest.json"}:
                shutil.rmtree(path, ignore_errors=True)


def free_names(wanted: Path) -> Iterator[Path]:
    """This folder and others like it, those that do not exist or are empty."""
    for k in range(1, 10_000):
        folder = wanted if k == 1 else wanted.with_name(f"{wanted.name}-{k}")
        if not os.path.lexists(folder) or (folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir())):
            yield folder


def claim_folder(temporary: Path, folder: Path) -> bool:
    """Give a filled folder its name; False if another process was faster."""
    try:
        temporary.rename(folder)  # which replaces an empty folder, and no other
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EBUSY):
            return False
        raise
    sync_folder(folder.parent)
    return True


def is_leftover(folder: Path) -> bool:
    """Whether a folder holds nothing but what a run leaves that was killed before it wrote its config.json."""
    return folder.is_dir() and not folder.is_symlink() and all(_is_leftover_file(path) for path in folder.iterdir())


def clear_leftovers(folder: Path) -> None:
    """Empty such a folder, so that a run can take its place."""
    for path in list(folder.iterdir()):
        if _is_leftover_file(path):
            path.unlink()


def _is_leftover_file(path: Path) -> bool:
    temporary = TEMPORARY.fullmatch(path.name) or OLD_TEMPORARY.fullmatch(path.name)
    known = path.name in ("manifest.json", ".lock") or temporary is not None
    return known and path.is_file() and not path.is_symlink()


def explain_missing_run(folder: Path) -> str:
    """Why a folder without config.json is no run, and what to do."""
    if not folder.is_dir():
        return "there is no such folder; `ahac list runs` lists those in runs, --out those of another folder"
    if runs := sorted(path.parent.name for path in folder.glob("*/config.json")):
        return f"it has no config.json, but holds runs: {', '.join(runs[:5])}{', ...' * (len(runs) > 5)}"
    if (folder / "checkpoints").is_dir():
        return "its config.json is missing; copy one from a run with the same settings, and set `seed` and `name` in it"
    return "it has no config.json; `ahac train` makes runs"
