"""Where the task of a run comes from: its name, a copy of the user's file, or a `Task` given in Python.

The folder of a run with a task FILE.py:NAME has a copy of the file, task.py, which is what later commands run, even if
the file has changed since. A run folder can come from somebody else, so a copy runs only if this user has trained with
the same file on this machine before, or says that it is trusted.
"""

from __future__ import annotations

import hashlib
import logging
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from ahac.core.errors import InputError
from ahac.core.files import read_json
from ahac.core.task_names import is_task_file, split_task_file
from ahac.envs import Task, make_task
from ahac.envs.task_file import load_task_file, read_task_file
from ahac.sim.model.notes import without_warnings
from ahac.training.config import OBJECT, TASK, RunConfig

__all__ = ["COPY", "ORIGIN", "ROBOT", "pin_task", "read_source", "resolve_task", "robot_file", "task_of_run", "trust"]

logger = logging.getLogger("ahac")

COPY = "task.py"
"""Copy of the task file in a run folder."""
ORIGIN = "task_file"
"""Entry of manifest.json: where the file was."""
ROBOT = "robot_file"
"""Entry of manifest.json: path and hash of the robot's file, to tell when it changes."""
HASH = "sha256:"


def resolve_task(config: RunConfig, task: Task | None = None, definition: Task | None = None) -> RunConfig:
    """Return the settings as config.json has them, with the integrator of the task and the hash of its file.

    Args:
        config: Settings of a run that is about to be created.
        task: The task, if it was given as an object.
        definition: The task that the settings name, if it is loaded already.
    """
    known = task or definition or make_task(config.task, config.variant)
    if config.integrator == TASK:
        config = replace(config, integrator=known.integrator)
    if task is not None:
        return replace(config, task=task.name, task_source=OBJECT)
    if not is_task_file(config.task):
        return config
    pinned = pin_task(config)
    file, attribute = split_task_file(config.task)
    return replace(pinned, task=f"{file.name}:{attribute}")


def pin_task(config: RunConfig) -> RunConfig:
    """Return the settings with the hash of the task's file as it is now, unless they have one."""
    if not is_task_file(config.task) or config.task_source:
        return config
    return replace(config, task_source=_hash(read_task_file(*split_task_file(config.task))))


def read_source(config: RunConfig, expected: str) -> bytes:
    """Return the content of the task file that the settings of a new run name; raise if its hash is not as expected."""
    file, attribute = split_task_file(config.task)
    source = read_task_file(file, attribute)
    if _hash(source) != expected:
        raise InputError(f"{file} has changed since the command started; start it again to train with the new version")
    return source


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
        if is_task_file(config.task):
            raise InputError(f"config.json of {folder} has no hash of the task file {config.task}, so it does not run")
        return config.with_integrator(make_task(config.task, config.variant))
    copy = folder / COPY
    _, attribute = split_task_file(config.task)
    if _hash(read_task_file(copy, attribute)) != config.task_source:
        raise InputError(
            f"{copy} is not the file that the run was trained with: its hash differs from task_source in config.json; "
            "restore it from a backup, or train again"
        )
    known = _trusted()
    if not trusted and config.task_source not in known:
        raise InputError(
            f"the task of {folder} is Python code, {copy}, that you have not trained with on this machine; evaluating, "
            "playing, resuming or exporting the run executes it. Read the file; if you trust it, add --trust, or in "
            "Python trust=True"
        )
    # The manifest of somebody else's run must not choose the folder of imports.
    origin = known.get(config.task_source) or (_origin(folder) if trusted else None)
    found = origin is not None and origin.parent.is_dir()
    file = origin if origin is not None and found else copy.resolve()
    saved = _manifest(folder).get(ROBOT)
    seen = config.task_source in known and saved == (saved and _file_hash(Path(saved["path"])))
    with without_warnings() if seen else nullcontext():  # this user has seen the notes on the robot in training
        task = load_task_file(file, attribute, config.variant, copy, imports=found or trusted)
    if (robot := robot_file(task)) != (saved := _manifest(folder).get(ROBOT, robot)):
        logger.warning("the robot file has changed since %s was trained: it was %s, is %s", folder, saved, robot)
    return config.with_integrator(task)


def robot_file(task: Task) -> dict[str, str] | None:
    """Return path and hash of the file that a task's model was loaded from; None if it was loaded from text."""
    source = task.model.source
    if source is None or "<" in source.label:  # XML
        return None
    return _file_hash(Path(source.label))


def _file_hash(path: Path) -> dict[str, str] | None:
    """Return path and hash of a file; None if there is none."""
    return {"path": str(path), "hash": _hash(path.read_bytes())} if path.is_file() else None


def trust(config: RunConfig, file: Path) -> None:
    """Remember that this user trains with the task file of these settings, and where it is."""
    if _trusted().get(config.task_source) == file:
        return
    path = _trust_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as lines:
            lines.write(f"{config.task_source} {file}\n")
    except OSError as error:
        logger.warning(
            "cannot write %s (%s); later commands with this run need --trust. XDG_STATE_HOME sets another folder",
            path,
            error.strerror,
        )


def _origin(folder: Path) -> Path | None:
    """Return where the task file was, according to the run's manifest."""
    origin = _manifest(folder).get(ORIGIN)
    return Path(origin) if isinstance(origin, str) else None


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    return read_json(path) if path.is_file() else {}


def _hash(source: bytes) -> str:
    return HASH + hashlib.sha256(source).hexdigest()


def _trust_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "ahac" / "trusted-tasks.txt"


def _trusted() -> dict[str, Path]:
    """Return the task files that this user has trained with: where they were, by the hash of their content."""
    try:
        lines = _trust_file().read_text(encoding="utf-8").splitlines()
    except OSError:  # there is none yet
        return {}
    return {key: Path(file) for key, _, file in (line.partition(" ") for line in lines) if file}
