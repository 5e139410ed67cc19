"""Train and resume runs from Python; the runs are the same as those of the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from ahac.algos.hyperparameters import TASKS
from ahac.algos.networks import CriticFactory, PolicyFactory
from ahac.algos.recipes import recipe
from ahac.core.config import flatten
from ahac.core.distributed import init_distributed
from ahac.core.errors import InputError
from ahac.core.text import suggestion
from ahac.envs import Task, make_task
from ahac.training.callbacks import CallbackLike, as_callbacks
from ahac.training.config import RunConfig
from ahac.training.prepare import prepare
from ahac.training.run import Run, create_run, open_run
from ahac.training.trainer import train as train_run

__all__ = ["configure", "resume", "train"]


Settings = TypeVar("Settings")


def configure(task: str | Task, algo: str = "ahac", preset: str = "default", **settings: Any) -> RunConfig:  # noqa: ANN401 - fields of RunConfig
    """Return the run settings of a task's recipe, with the given fields of `RunConfig` replaced.

    Fields of the algorithm's settings have dotted names: `**{"algorithm.actor.hidden": (64, 64)}`.
    """
    base = recipe(_recipe_name(task), algo, preset)
    config = RunConfig(
        task=task if isinstance(task, str) else task.name,
        algo=algo,
        preset=preset,
        num_envs=base.num_envs,
        iterations=base.iterations,
        algorithm=base.algorithm,
    )
    for name, value in settings.items():
        config = _replaced(config, name, name.split("."), value)
    return config


def _recipe_name(task: str | Task) -> str:
    """Return the task whose hyperparameters a task is trained with."""
    if isinstance(task, str) and task in TASKS:
        return task
    definition = make_task(task) if isinstance(task, str) else task
    if not isinstance(definition, Task):  # pyright: ignore[reportUnnecessaryIsInstance] - users without type checker
        raise InputError(f"task must be a name, FILE.py:NAME or a Task, got {task!r}")
    if definition.recipe and definition.recipe not in TASKS:
        raise InputError(
            f"recipe of the task {definition.name!r} must name a task with hyperparameters, got {definition.recipe!r}"
            f"{suggestion(definition.recipe, TASKS)}; known: {', '.join(TASKS)}"
        )
    return definition.recipe or definition.name


def _replaced(settings: Settings, full: str, path: list[str], value: object) -> Settings:
    """Return settings with one field replaced, whose name may be a path into nested settings."""
    head, *rest = path
    names = [item.name for item in fields(settings)] if is_dataclass(settings) else []
    if head not in names:
        known = f"; settings: {', '.join(names)}" if names else ""
        raise InputError(f"no setting named {full!r}{suggestion(head, names)}{known}")
    _check_not_mapping(full, value)
    changed = _replaced(getattr(settings, head), full, rest, value) if rest else value
    return cast("Settings", replace(settings, **{head: changed}))  # pyright: ignore[reportArgumentType] - a dataclass


def _check_not_mapping(name: str, value: object) -> None:
    """Raise an InputError with dotted names if a dictionary is given in place of a settings dataclass."""
    if isinstance(value, Mapping):
        dotted = flatten({name: value})
        raise InputError(f"{name} must be a settings dataclass, got a dictionary; write **{dotted} instead")


def train(
    task: str | Task,
    algo: str = "ahac",
    preset: str = "default",
    *,
    display: bool = True,
    callbacks: Iterable[CallbackLike] = (),
    policy: PolicyFactory | None = None,
    critic: CriticFactory | None = None,
    **settings: Any,  # noqa: ANN401 - fields of RunConfig
) -> Run:
    """Train a policy and return the run. Under torchrun, all processes train together.

    Args:
        task: Task name, one of `ahac.tasks()`; FILE.py:NAME; or a `Task`.
        algo: "ahac", "ahac1", "shac", "sapo", "rpo", "ivwh", "bptt", "ppo", "sac", "svg", "fasttd3", or one that you
            have registered.
        preset: "default", "paper" or "released".
        display: Whether to show progress.
        callbacks: Called during training: each an `ahac.Callback`, or a function of the run and an iteration's metrics.
        policy: Custom network of the policy: `policy(obs_size, num_actions)` returns a `torch.nn.Module`.
        critic: Custom network of the critic: `critic(obs_size)` returns a `torch.nn.Module`.
        settings: Any other field of `RunConfig`: seed, num_envs, iterations, device, out, algorithm, ...
    """
    config = configure(task, algo, preset, **settings)
    called, ranks = as_callbacks(callbacks), init_distributed()
    run = create_run(config, ranks, None if isinstance(task, str) else task, policy=policy, critic=critic)
    train_run(run, display=display, callbacks=called)
    return run


def resume(  # noqa: PLR0913 - keyword-only settings of a public entry point
    folder: str | os.PathLike[str],
    iterations: int | None = None,
    env_steps: int | None = None,
    checkpoint: str | None = None,
    *,
    task: Task | None = None,
    display: bool = True,
    trust: bool = False,
    callbacks: Iterable[CallbackLike] = (),
    policy: PolicyFactory | None = None,
    critic: CriticFactory | None = None,
) -> Run:
    """Resume a run bit-exactly from its last checkpoint and return it.

    Args:
        folder: Run folder.
        iterations: New total number of iterations, at least the number already done. Learning rates then decay over the
            new length: they jump at this point, so the result differs from a run started with that length.
        env_steps: New total number of environment steps; the same caveat applies.
        checkpoint: Resume from this checkpoint instead, "best" or "iteration-NNNNNN". The replaced last checkpoint and
            metrics.csv are kept under other names.
        task: The task, if the run was trained with a `Task` object.
        display: Whether to show progress.
        trust: Whether to run the folder's task.py even if you have not trained with it on this machine.
        callbacks: Called during training, as in `train`.
        policy: Custom network of the policy, if the run was trained with one.
        critic: Custom network of the critic, if the run was trained with one.
    """
    called = as_callbacks(callbacks)
    opened = open_run(folder, init_distributed(), task=task, trust=trust, policy=policy, critic=critic)
    run = prepare(opened, checkpoint, iterations, env_steps)
    train_run(run, display=display, callbacks=called)
    return run
