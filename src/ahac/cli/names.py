"""Names of tasks, algorithms and presets for help, errors and shell completion, without importing torch."""

from __future__ import annotations

import shlex
import sys
from importlib.metadata import entry_points

from ahac.cli.paths import ROBOT_SUFFIXES
from ahac.core.errors import InputError
from ahac.core.task_names import is_task_file
from ahac.core.text import suggestion

__all__ = ["ALGOS", "PRESETS", "TASKS", "algo_names", "check_task", "is_task", "task_names"]

# Copies of the names in ahac.envs.registry and ahac.algos.recipes, which import torch; tests compare them.
TASKS = (
    "hopper", "ant", "anymal", "humanoid", "snu_humanoid", "go1", "go2", "g1", "half_cheetah", "cartpole",
    "double_pendulum",
)  # fmt: skip
ALGOS = ("ahac", "ahac1", "shac", "sapo", "rpo", "ivwh", "bptt", "ppo", "sac", "svg", "fasttd3")
PRESETS = ("default", "paper", "released")


def task_names() -> list[str]:
    """Return the names of all tasks, like `ahac.tasks()`."""
    if "ahac.envs.registry" in sys.modules:  # where this program may have registered more
        from ahac.envs import tasks

        return tasks()
    return _with_external(TASKS, "ahac.tasks")


def algo_names() -> list[str]:
    """Return the names of all algorithms, without those that this program registered."""
    return _with_external(ALGOS, "ahac.algorithms")


def is_task(name: str) -> bool:
    """Return whether this is the name of a task, or has the form FILE.py:NAME."""
    return is_task_file(name) or name in task_names()


def check_task(name: str) -> None:
    """Raise an InputError if there is no task with this name; FILE.py:NAME is checked when the file is loaded."""
    if name.endswith(ROBOT_SUFFIXES):
        raise InputError(f"{name!r} is a robot file, not a task; `ahac new {shlex.quote(name)}` writes a task for it")
    if ".py" not in name and name not in (known := task_names()):
        raise InputError(f"no task named {name!r}{suggestion(name, known)}; known: {', '.join(known)}")


def _with_external(names: tuple[str, ...], group: str) -> list[str]:
    """Return names, and those that other packages add through entry points."""
    return [*names, *(entry.name for entry in entry_points(group=group) if entry.name not in names)]
