"""Set the velocity command by hand: to steer a policy, or to evaluate it at one command.

task = hold_command(ahac.envs.make_task("go1"))
env = ahac.make(task, num_envs=16)
set_command(env, 0.5, 0.0, 0.0)                  # forward [m/s], to the left [m/s], yaw rate [rad/s]; zero before
obs = env.reset()                                # without a seed, which would start with a command of zero again
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from ahac.core.checks import check_finite
from ahac.core.errors import InputError
from ahac.envs.components.commands import NEVER, VelocityCommand
from ahac.envs.components.timing import bounds_of
from ahac.envs.draws import Draw
from ahac.envs.memory import StartFn
from ahac.envs.task import Task
from ahac.sim import Real, World

__all__ = [
    "command_ranges",
    "hold_command",
    "outside_ranges",
    "release_command",
    "set_command",
]

VELOCITIES = ("lin_vel_x", "lin_vel_y", "ang_vel_z")


class _Env(Protocol):
    """What `set_command` needs of an environment."""

    task: Task

    @property
    def memory(self) -> Mapping[str, Tensor]: ...


def hold_command(task: Task) -> Task:
    """Return a task whose command is zero until `set_command` changes it, and stays the same between episodes.

    `env.reset(seed)` with a seed sets the command back to zero.
    """
    memory = {name: replace(task.memory[name], start=_last_value(name), update=None) for name in _commands_of(task)}
    return replace(task, memory={**task.memory, **memory})


def set_command(env: _Env, lin_vel_x: float, lin_vel_y: float, ang_vel_z: float) -> None:
    """Command a velocity in all worlds, in the frame of `VelocityCommand`; the level of a curriculum does not scale it.

    The next step returns the first observation with it; so does `env.reset()` if the task is one of `hold_command`.
    Other tasks draw a new command when an episode ends. If a task has several velocity commands, all are set.
    """
    numbers = zip(VELOCITIES, (lin_vel_x, lin_vel_y, ang_vel_z), strict=True)
    command = [check_finite(name, value) for name, value in numbers]
    for name in _commands_of(_task_of(env)):
        entry = env.memory[name].detach()
        values = torch.tensor([*command, NEVER], device=entry.device, dtype=entry.dtype)
        if not values.isfinite().all():
            raise InputError(f"the command must be finite as {entry.dtype}, got {command}")
        entry[:] = values


def outside_ranges(task: Task, lin_vel_x: float, lin_vel_y: float, ang_vel_z: float) -> list[str]:
    """Describe the velocities that are outside the ranges that the task commands in training.

    These are the ranges at level 1 of a curriculum, which a policy may not have reached.
    """
    found: list[str] = []
    for owner in _commands_of(task).values():
        if owner.standing and not any((lin_vel_x, lin_vel_y, ang_vel_z)):
            continue
        for name, value in zip(VELOCITIES, (lin_vel_x, lin_vel_y, ang_vel_z), strict=True):
            low, high = bounds_of(getattr(owner, name))
            if not low <= value <= high:
                training = f"always {low:g}" if low == high else f"within [{low:g}, {high:g}]"
                found.append(f"{name} = {value:g}, in training {training}")
    return found


def command_ranges(task: Task) -> tuple[tuple[float, float], ...]:
    """Return the bounds of the three velocities in training, extended to zero; nothing if the task has no commands."""
    owners = list(_velocity_commands(task).values())
    bounds = [[bounds_of(getattr(owner, name)) for owner in owners] for name in VELOCITIES]
    return tuple((min(0.0, *map(min, pairs)), max(0.0, *map(max, pairs))) for pairs in bounds) if owners else ()


def release_command(env: _Env) -> None:
    """Let commands vary again after `set_command`: a new one is drawn in the next step."""
    task = _task_of(env)
    for name in _commands_of(task):
        if task.memory[name].update is None:
            raise InputError(
                f"{task.name} is a task of hold_command, whose command never varies; make an environment of the "
                "original task"
            )
        env.memory[name].detach()[:, -1] = 0.0


def _task_of(env: _Env) -> Task:
    if not isinstance(task := getattr(env, "task", None), Task):
        raise InputError(
            f"expected an environment of ahac.make, got {type(env).__name__}; of a Gymnasium environment pass `.env`"
        )
    return task


def _velocity_commands(task: Task) -> dict[str, VelocityCommand]:
    """Return the velocity commands of a task, by the names of their memory."""
    if not isinstance(task, Task):
        raise InputError(f"expected a task, got {task!r}; use ahac.envs.make_task(name)")
    owners = {name: entry.owner for name, entry in task.memory.items()}
    return {name: owner for name, owner in owners.items() if isinstance(owner, VelocityCommand)}


def _commands_of(task: Task) -> dict[str, VelocityCommand]:
    """Return `_velocity_commands`; raise an InputError if there are none."""
    if not (commands := _velocity_commands(task)):
        raise InputError(
            f"{task.name} follows no velocity commands; tasks with a VelocityCommand do, such as go1, go2, g1 and "
            "those of walk"
        )
    return commands


def _last_value(name: str) -> StartFn:
    """Return a start of memory that keeps the value of the last episode."""

    def start(world: World, memory: Mapping[str, Sequence[Real]], draw: Draw) -> Sequence[Real]:
        return memory[name]

    return start
