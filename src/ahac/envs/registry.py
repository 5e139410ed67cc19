"""Tasks by name, and the door through which environments are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.errors import InputError
from ahac.core.registry import Registry
from ahac.envs.ant import ant
from ahac.envs.anymal import anymal
from ahac.envs.cartpole import cartpole
from ahac.envs.double_pendulum import double_pendulum
from ahac.envs.half_cheetah import half_cheetah
from ahac.envs.hopper import hopper
from ahac.envs.humanoid import humanoid
from ahac.envs.snu_humanoid import snu_humanoid
from ahac.envs.task import Task
from ahac.envs.vec_env import VecEnv

__all__ = ["make", "make_task", "register_task", "tasks"]

_tasks: Registry[Task] = Registry("task", "ahac.tasks")
for _factory in (hopper, ant, anymal, humanoid, snu_humanoid, half_cheetah, cartpole, double_pendulum):
    _tasks.add(_factory.__name__, _factory)


def tasks() -> list[str]:
    """Names of all tasks: the paper's, the small ones, and those that other packages bring."""
    return _tasks.names()


def register_task(name: str, factory: Callable[[str], Task]) -> None:
    """Make a task known by name: a function of the variant's name that returns a `Task`.

    A package does this without code, by an entry point in the group "ahac.tasks".
    """
    _tasks.add(name, factory)


def make_task(name: str, variant: str = "paper") -> Task:
    """The task of that name."""
    made = _tasks.lookup(name)(variant)
    if not isinstance(made, Task):
        raise InputError(f"task {name!r} must be a function that returns a Task, got {type(made).__name__}")
    return made


def make(  # noqa: PLR0913 - settings of the public door, keyword-only
    task: str | Task,
    *,
    num_envs: int,
    device: str | torch.device = "cpu",
    seed: int = 0,
    variant: str = "paper",
    early_termination: bool = True,
    episode_steps: int | None = None,
    dtype: torch.dtype = torch.float32,
    num_threads: int | None = None,
    ranks: ProcessGroup = SINGLE_PROCESS,
) -> VecEnv:
    """An environment of N worlds.

    Args:
        task: A name out of `ahac.tasks()`, or a `Task` of your own.
        num_envs: How many worlds run side by side, on this rank.
        device: "cpu" or a CUDA device.
        seed: Of all chance in the environment.
        variant: "paper" or "released", where the two differ; see docs/tasks. A `Task` of your own has none.
        early_termination: Whether the task may end episodes before their time is up.
        episode_steps: Control steps after which episodes are cut off; by default the task's own.
        dtype: torch.float32 or torch.float64.
        num_threads: CPU threads; all cores by default.
        ranks: Processes that have as many worlds each.
    """
    if not isinstance(task, str) and variant != "paper":
        raise InputError(f"a variant is for tasks by name; this Task is as it is, got variant={variant!r}")
    found = make_task(task, variant) if isinstance(task, str) else task
    if episode_steps is not None and isinstance(found, Task):
        found = replace(found, episode_steps=episode_steps)
    return VecEnv(
        found,
        num_envs=num_envs,
        device=device,
        seed=seed,
        dtype=dtype,
        early_termination=early_termination,
        num_threads=num_threads,
        ranks=ranks,
    )
