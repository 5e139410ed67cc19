"""Registry of tasks by name, and `make`, which creates environments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.errors import InputError
from ahac.core.registry import Registry
from ahac.core.task_names import is_task_file, split_task_file
from ahac.envs.ant import ant
from ahac.envs.anymal import anymal
from ahac.envs.cartpole import cartpole
from ahac.envs.double_pendulum import double_pendulum
from ahac.envs.g1 import g1
from ahac.envs.go1 import go1
from ahac.envs.go2 import go2
from ahac.envs.half_cheetah import half_cheetah
from ahac.envs.hopper import hopper
from ahac.envs.humanoid import humanoid
from ahac.envs.snu_humanoid import snu_humanoid
from ahac.envs.task import Task
from ahac.envs.task_file import call_factory, load_task_file
from ahac.envs.vec_env import VecEnv
from ahac.sim import Integrator

__all__ = ["make", "make_task", "register_task", "tasks"]

_tasks: Registry[Task] = Registry("task", "ahac.tasks")
for _factory in (
    hopper, ant, anymal, humanoid, snu_humanoid, go1, go2, g1, half_cheetah, cartpole, double_pendulum
):  # fmt: skip
    _tasks.add(_factory.__name__, _factory, builtin=True)


def tasks() -> list[str]:
    """Return the names of all tasks: the paper's, the small ones, and those registered by other packages."""
    return _tasks.names()


def register_task(name: str, factory: Callable[..., Task]) -> None:
    """Register a task under a name; a task registered under it before is replaced, unless it is built in.

    A package can register a task without being imported, through an entry point in the group "ahac.tasks".

    Args:
        name: Name of the task.
        factory: Returns a `Task`. If it has a parameter `variant`, it is called with the name of a variant.
    """
    _tasks.add(name, factory)


def make_task(name: str, variant: str = "paper", integrator: Integrator | None = None) -> Task:
    """Create a task by its registered name or FILE.py:NAME, with another integrator than its own if one is given."""
    if is_task_file(name):
        task = load_task_file(*split_task_file(name), variant)
    elif name.endswith(".py"):
        raise InputError(f"a task in a file is written FILE.py:NAME, got {name!r}; add the name of the task")
    else:
        task = call_factory(_tasks.lookup(name), variant)
    if not isinstance(task, Task):
        raise InputError(f"task {name!r} must be a function that returns a Task, got {type(task).__name__}")
    return task if integrator is None else task.with_integrator(integrator)


def make(  # noqa: PLR0913 - keyword-only settings of the public entry point
    task: str | Task,
    *,
    num_envs: int,
    device: str | torch.device = "cpu",
    seed: int = 0,
    variant: str = "paper",
    integrator: Integrator | None = None,
    early_termination: bool = True,
    episode_steps: int | None = None,
    dtype: torch.dtype = torch.float32,
    num_threads: int | None = None,
    ranks: ProcessGroup = SINGLE_PROCESS,
) -> VecEnv:
    """Create an environment of N worlds.

    Args:
        task: A name from `ahac.tasks()`, FILE.py:NAME, or your own `Task`.
        num_envs: Number of worlds on this rank.
        device: "cpu" or a CUDA device.
        seed: Random seed for episode resets and stiffness probes.
        variant: "paper" or "released", where the two differ; see docs/tasks. Only for tasks given by name.
        integrator: "implicit" or "explicit"; the task's own by default, see `Simulator`.
        early_termination: Whether the task may end episodes before the time limit.
        episode_steps: Control steps after which episodes are truncated; defaults to the task's value.
        dtype: torch.float32 or torch.float64.
        num_threads: Number of CPU threads; all cores by default.
        ranks: Process group; every rank has the same number of worlds.
    """
    if not isinstance(task, str) and variant != "paper":
        raise InputError(f"variant applies only to tasks given by name, got variant={variant!r} with a Task; omit it")
    definition = make_task(task, variant) if isinstance(task, str) else task
    if integrator is not None and isinstance(definition, Task):
        definition = definition.with_integrator(integrator)
    if episode_steps is not None and isinstance(definition, Task):
        definition = replace(definition, episode_steps=episode_steps)
    return VecEnv(
        definition,
        num_envs=num_envs,
        device=device,
        seed=seed,
        dtype=dtype,
        early_termination=early_termination,
        num_threads=num_threads,
        ranks=ranks,
    )
