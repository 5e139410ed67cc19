"""Where the task of a run comes from: its name, a copy of the user's file, or a `Task` given in Python.

The folder of a run with a task FILE.py:NAME has a copy of the file, task.py, which is what later commands run, even if
the file has changed since. A run folder can come from somebody else, so a copy runs only if this user has trained with
the same file on this machine before, or says that it is trusted.
"""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import replace
from pathlib import Path

from ahac.core.errors import InputError
from ahac.core.files import read_json
from ahac.envs import Task, make_task
from ahac.envs.task_file import is_task_file, load_task_file, read_task_file, split_task_file
from ahac.training.config import OBJECT, TASK, RunConfig

__all__ = ["COPY", "ORIGIN", "read_source", "resolve_task", "task_of_run", "trust"]

logger = logging.getLogger("ahac")

COPY = "task.py"
"""Copy of the task file in a run folder."""
ORIGIN = "task_file"
"""Entry of manifest.json: where the file was."""
HASH = "sha256:"


def resolve_task(config: RunConfig, task: Task | None = None) -> RunConfig:
    """Return the settings as config.json has them, with the integrator of the task and the hash of its file.

    Args:
        config: Settings of a run that is about to be created.
        task: The task, if it was given as an object.
    """
    definition = make_task(config.task, config.variant) if task is None else task
    if config.integrator == TASK:
        config = replace(config, integrator=definition.integrator)
    if task is not None:
        return replace(config, task=task.name, task_source=OBJECT)
    if not is_task_file(config.task):
        return config
    file, attribute = split_task_file(config.task)
    return replace(config, task=f"{file.name}:{attribute}", task_source=_hash(read_source(config)))


def read_source(config: RunConfig) -> bytes:
    """Return the content of the task file that the settings of a new run name."""
    return read_task_file(*split_task_file(config.task))


def task_of_run(folder: Path, config: RunConfig, trusted: bool) -> Task:
    """Return the task of a saved run.

    Args:
        folder: Run folder.
        config: Its settings.
        trusted: Whether to run a task file that this user has not trained with on this machine.
    """
    if config.task_source == OBJECT:
        raise InputError(
            f"{folder} was trained with a Task object named {config.task!r}, which is not in the folder; pass it again "
            "(`open_run(folder, task=task)`), or define tasks in a file and train with FILE.py:NAME"
        )
    if not config.task_source:
        return config.with_integrator(make_task(config.task, config.variant))
    copy = folder / COPY
    _, attribute = split_task_file(config.task)
    source = read_task_file(copy, attribute)
    if _hash(source) != config.task_source:
        raise InputError(
            f"{copy} is not the file that the run was trained with: its hash differs from task_source in config.json; "
            "restore it from a backup, or train again"
        )
    if not trusted and config.task_source not in _trusted():
        raise InputError(
            f"the task of {folder} is Python code, {copy}, that you have not trained with on this machine; evaluating, "
            "playing, resuming or exporting the run executes it. Read the file; if you trust it, add --trust, or in "
            "Python trust=True"
        )
    return config.with_integrator(load_task_file(_origin(folder, copy), attribute, config.variant, source))


def trust(config: RunConfig) -> None:
    """Remember that this user trains with the task file of these settings."""
    if not config.task_source.startswith(HASH) or config.task_source in _trusted():
        return
    path = _trust_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{config.task_source}\n")
    except OSError as error:
        logger.warning(
            "cannot write %s (%s); later commands with this run need --trust. XDG_STATE_HOME sets another folder",
            path,
            error.strerror,
        )


def _origin(folder: Path, copy: Path) -> Path:
    """Return where the task file was, if its folder still exists, so that it finds the robot's files; else the copy."""
    path = folder / "manifest.json"
    origin = read_json(path).get(ORIGIN) if path.is_file() else None
    return Path(origin) if origin and Path(origin).parent.is_dir() else copy.resolve()


def _hash(source: bytes) -> str:
    return HASH + hashlib.sha256(source).hexdigest()


def _trust_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "ahac" / "trusted-tasks.txt"


def _trusted() -> set[str]:
    """Return the hashes of task files that this user has trained with."""
    try:
        return set(_trust_file().read_text(encoding="utf-8").split())
    except OSError:  # there is none yet
        return set()
