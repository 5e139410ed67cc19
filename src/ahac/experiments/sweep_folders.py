"""Folders of the runs of a sweep: their names and logs, their status, and what starts or resumes them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from ahac.core.config import flatten, to_dict
from ahac.core.errors import AhacError, InputError
from ahac.envs import Task, make_task
from ahac.experiments.run_files import read_run
from ahac.training.checkpoint import LAST, CheckpointError, load_checkpoint, newest_first
from ahac.training.config import NON_SEMANTIC_FIELDS, RunConfig
from ahac.training.names import check_name
from ahac.training.preflight import clear_leftovers, is_leftover, validate_config
from ahac.training.process import LOCK, exclusive_lock
from ahac.training.run import create_run, open_run
from ahac.training.task_source import resolve_task

__all__ = [
    "ChangedSettingsError",
    "FolderError",
    "RunStatus",
    "check_folders",
    "create_folder",
    "damaged_checkpoint",
    "folder_of",
    "is_in_use",
    "last_message",
    "log_of",
    "log_path",
    "log_size",
    "resume_command",
    "run_status",
    "run_statuses",
]

COMMAND = (sys.executable, "-m", "ahac", "resume")
"""Command that trains the run in a folder, from the start or from its last checkpoint."""

PROGRESS = re.compile(r"\s*\d+/\d+ ")
"""What lines that show the progress of a run begin with."""

RunStatus = Literal["new", "unfinished", "complete"]


class FolderError(InputError):
    """An existing folder cannot be used for the run of its name; other runs of the sweep are not affected."""


class ChangedSettingsError(InputError):
    """The folder of a run was created with settings that have changed since."""

    def __init__(self, folder: Path, changes: str) -> None:
        super().__init__(
            f"{folder} was created with different settings ({changes}); choose another name or --out folder, move it "
            f"away, or train the others with `ahac sweep ... --except {shlex.quote(folder.name)}`"
        )
        self.folder = folder
        self.changes = changes


def folder_of(config: RunConfig) -> Path:
    """Return the run folder of a config, which must have a name."""
    if not config.name:
        raise InputError("every run in a sweep needs a name, so that it is found when the sweep is repeated")
    check_name(config.name)
    return Path(config.out) / config.name


def log_of(name: str) -> str:
    """Return the name of a run's log file, which is next to its folder so that the folder can be moved or removed."""
    return f"{name}.log"


def log_path(config: RunConfig) -> Path:
    """Return the log file of a run."""
    return Path(config.out) / log_of(config.name)


def log_size(config: RunConfig) -> int:
    """Return the size of a run's log so far [bytes]; 0 if there is none."""
    try:
        return log_path(config).stat().st_size
    except OSError:
        return 0


def last_message(config: RunConfig, begin: int) -> str:
    """Return the last line of a run's log after `begin` bytes that is neither empty nor shows progress; "" if none."""
    try:
        lines = log_path(config).read_bytes()[begin:].decode(errors="replace").split("\n")
    except OSError:  # it was removed
        return "no log"
    return next((line.strip() for line in reversed(lines) if line.strip() and not PROGRESS.match(line)), "")


def damaged_checkpoint(config: RunConfig) -> str:
    """Say what is wrong with a run's last checkpoint, and how it continues from another; "" if it can be read."""
    try:
        run = open_run(folder_of(config))
        if not run.path_of(LAST).is_file():
            return ""
        load_checkpoint(run.path_of(LAST))
    except CheckpointError as error:
        damage = str(error)
    except (AhacError, OSError):  # other files are damaged
        return ""
    else:
        return ""
    for name in newest_first(name for name in run.checkpoint_names() if name != LAST):
        with suppress(CheckpointError, OSError):
            load_checkpoint(run.path_of(name))
            return f"{damage}; continue with `ahac resume {shlex.quote(str(run.folder))} --checkpoint {name}`"
    return f"{damage}; no other checkpoint can be read: remove the folder to train the run again"


def check_folders(configs: Sequence[RunConfig]) -> None:
    """Raise an InputError if two runs have the same name, one is named like a log, or they have no folder to be in."""
    for out in dict.fromkeys(Path(config.out) for config in configs):
        if os.path.lexists(out) and not out.is_dir():
            raise InputError(
                f"{out} is not a folder; expected a folder for the run folders, or a new name: change --out"
            )
    folders = Counter(folder_of(config).resolve() for config in configs)
    if repeated := [folder.name for folder, count in folders.items() if count > 1]:
        raise InputError(f"runs of a sweep need distinct names; more than one is named {', '.join(repeated)}")
    for config in configs:
        if log_path(config).resolve() in folders:
            raise InputError(
                f"run {log_path(config).name!r} has the same name as the log of run {config.name!r}; rename one"
            )


def run_status(config: RunConfig, tasks: dict[tuple[str, str], Task] | None = None) -> RunStatus:
    """Return whether a run is new, unfinished or complete.

    Args:
        config: Settings of the run.
        tasks: Tasks that were loaded before, by name and variant; others are loaded and added. Loading takes most of
            the time for many runs.

    Raises:
        FolderError: The folder of that name is damaged or not a run.
        ChangedSettingsError: The run was created with different settings.
        InputError: The settings are invalid.
    """
    tasks = {} if tasks is None else tasks
    folder = folder_of(config)
    key = (config.task, config.variant)
    try:
        if key not in tasks:
            tasks[key] = make_task(*key)
        task = tasks[key]
        validate_config(config, task=task)
    except InputError as error:
        raise InputError(f"run {config.name!r}: {error}") from error
    try:
        if not os.path.lexists(folder) or is_leftover(folder):
            return "new"
        if not folder.is_dir():
            raise FolderError(f"{folder} is not a folder; move it away, or choose another name")
        saved = flatten(to_dict(open_run(folder).config))
    except FolderError:
        raise
    except (AhacError, OSError) as error:
        raise FolderError(str(error)) from error
    requested = flatten(to_dict(resolve_task(config, definition=task)))
    if different := [
        name
        for name in {**requested, **saved}
        if name not in NON_SEMANTIC_FIELDS and requested.get(name) != saved.get(name)
    ]:
        changes = [
            "task_source, as the task's file has changed"
            if name == "task_source"
            else f"{name} {saved.get(name)!r} instead of {requested.get(name)!r}"
            for name in different
        ]
        raise ChangedSettingsError(folder, ", ".join(changes))
    try:
        run = read_run(folder)
    except InputError:  # the process that resumes the run repairs or reports it
        return "unfinished"
    # After the last iteration, the evaluation may still be missing.
    return "complete" if run.complete and run.evaluation is not None else "unfinished"


def run_statuses(configs: Sequence[RunConfig]) -> list[RunStatus | FolderError]:
    """Return the status of each run, or why its folder cannot be used.

    Raise an InputError for invalid settings, or one that names all runs that were created with different settings.
    """
    tasks: dict[tuple[str, str], Task] = {}
    statuses: list[RunStatus | FolderError] = []
    changed: list[ChangedSettingsError] = []
    for config in configs:
        try:
            statuses.append(run_status(config, tasks))
        except FolderError as error:
            statuses.append(error)
        except ChangedSettingsError as error:
            changed.append(error)
    if len(changed) == 1:
        raise changed[0]
    if changed:
        names: dict[str, list[str]] = {}
        for error in changed:
            names.setdefault(error.changes, []).append(error.folder.name)
        reasons = "; ".join(f"{', '.join(alike)} ({changes})" for changes, alike in names.items())
        raise InputError(
            f"{len(changed)} of {len(configs)} runs were created with different settings: {reasons}; choose another "
            "--out folder, move them away, or train the others with `ahac sweep ... --except PATTERN`"
        )
    return statuses


def is_in_use(config: RunConfig) -> bool:
    """Return whether a process trains in the folder of a run."""
    folder = folder_of(config)
    if not (folder / LOCK).is_file():
        return False
    try:
        with exclusive_lock(folder, timeout=0.0):
            return False
    except InputError:
        return True
    except AhacError:  # it cannot be written; starting the run tells why
        return False


def create_folder(config: RunConfig) -> None:
    """Create the run folder on the machine that trains, unless it exists."""
    if run_status(config) != "new":
        return
    if (folder := folder_of(config)).exists():
        clear_leftovers(folder)
    if (created := create_run(config).folder) != folder:  # another process has taken the name since
        shutil.rmtree(created)


def resume_command(config: RunConfig) -> list[str]:
    """Return the command that trains the run in its folder."""
    # A run that was begun on another device continues on the one that the sweep asks for.
    device = [] if config.device == "auto" else ["--device", config.device]
    trusted = ["--trust"] if config.task_source else []  # the process that plans the sweep has loaded the same file
    # The absolute path, because a name may start with a dash.
    return [*COMMAND, str(folder_of(config).absolute()), *device, *trusted]
