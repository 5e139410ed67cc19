"""What a run needs before it begins: settings that can be run, a device that is here, a folder of its own."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from ahac.algos.recipes import ALGOS, recipe
from ahac.algos.registry import check_ranks
from ahac.core.errors import InputError
from ahac.core.files import TEMPORARY, explained, is_abandoned, make_folder, sync_folder, temporary_name
from ahac.core.ranks import ALONE, Ranks
from ahac.envs import make_task
from ahac.training.config import RunConfig
from ahac.training.names import check_name

__all__ = [
    "at_hand", "check", "chosen_device", "claim", "clear_leftovers", "free_names", "is_leftover", "new_folder",
    "what_is_wrong",
]  # fmt: skip

logger = logging.getLogger("ahac")


def check(config: RunConfig, ranks: Ranks = ALONE) -> None:
    """Refuse what no run can be made from, whatever the machine."""
    if config.name:
        check_name(config.name)
    make_task(config.task, config.variant)
    check_ranks(config.learner, ranks)
    if config.algo in ALGOS:
        wanted = type(recipe(config.task, config.algo).learner)
        if not isinstance(config.learner, wanted):
            raise InputError(
                f"learner must be a {wanted.__name__} for algo {config.algo!r}, got a {type(config.learner).__name__}; "
                "take the recipe's, ahac.training.api.configure(task, algo).learner, and replace what differs"
            )


def chosen_device(device: str, ranks: Ranks = ALONE) -> str:
    """CUDA for "auto", where there is one, and for each of several ranks its own; what is not here is refused."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device != "cpu" and device.partition(":")[0] != "cuda":
        raise InputError(f"device must be auto, cpu, cuda or cuda:N, got {device!r}")
    if device != "cpu" and not torch.cuda.is_available():
        raise InputError(f"device {device!r} was asked for, but torch finds no CUDA device here; use cpu or auto")
    if ranks.size == 1 or device == "cpu":
        return device
    if device != "cuda":
        raise InputError(f"each of {ranks.size} ranks has a GPU of its own, got device {device!r} for all; use cuda")
    if ranks.local_size > torch.cuda.device_count():
        raise InputError(
            f"{ranks.local_size} ranks on this machine have {torch.cuda.device_count()} GPUs between them; start as "
            "many (torchrun --nproc-per-node), or use --device cpu"
        )
    return f"cuda:{ranks.local}"


def at_hand(device: str) -> str:
    """That device, or what is here where there is no GPU for what was trained on one."""
    return device if device in ("auto", "cpu") or torch.cuda.is_available() else "auto"


@contextmanager
def new_folder(wanted: Path) -> Iterator[Path]:
    """A temporary folder to fill; `claim` gives it its name, and it is removed if that does not happen."""
    make_folder(wanted.parent)
    with explained(wanted):
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


def claim(temporary: Path, folder: Path) -> bool:
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
    known = path.name in ("manifest.json", ".lock") or TEMPORARY.fullmatch(path.name) is not None
    return known and path.is_file() and not path.is_symlink()


def what_is_wrong(folder: Path) -> str:
    """Why a folder without config.json is no run, and what to do."""
    if not folder.is_dir():
        return "there is no such folder; `ahac list runs` lists those in runs, --out those of another folder"
    if runs := sorted(path.parent.name for path in folder.glob("*/config.json")):
        return f"it has no config.json, but holds runs: {', '.join(runs[:5])}{', ...' * (len(runs) > 5)}"
    if (folder / "checkpoints").is_dir():
        return "its config.json is missing; copy one from a run with the same settings, and set `seed` and `name` in it"
    return "it has no config.json; `ahac train` makes runs"
