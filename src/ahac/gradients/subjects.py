"""What is looked at: a task by name or out of a file of the user's own, and a policy that acts in it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ahac.algos.first_order import FirstOrder
from ahac.algos.recipes import recipe
from ahac.core.errors import InputError
from ahac.envs import VecEnv, make, make_task, tasks
from ahac.envs.task import Task
from ahac.nets.actor import Actor
from ahac.nets.normalizer import View
from ahac.training.checkpoint import read_numbers
from ahac.training.folders import chosen_device
from ahac.training.run import Run, open_run

__all__ = ["Subject", "find_task", "subject"]


@dataclass(frozen=True, eq=False)
class Subject:
    """Worlds of a task that does not end episodes early, and a policy."""

    env: VecEnv
    actor: Actor
    view: View
    """How the policy sees observations."""
    about: Mapping[str, Any]
    """Which task and policy it is, as JSON has it; the same for the same."""

    def act(self, obs: Tensor) -> Tensor:
        """The policy's action without noise, from raw observations."""
        with torch.no_grad():
            return self.actor(self.view(obs))


def find_task(name: str, variant: str = "paper") -> Task:
    """A task by its name, or by FILE.py:NAME, where NAME is a `Task` or a function that returns one."""
    file, colon, attribute = name.rpartition(":")
    if not colon or not file.endswith(".py"):
        if name in tasks():
            return make_task(name, variant)
        raise InputError(
            f"no task named {name!r}; known: {', '.join(tasks())}. One of your own is given as FILE.py:NAME, where NAME "
            "is a Task in that file or a function that returns one"
        )
    if not Path(file).is_file():
        raise InputError(f"there is no file {file!r}, in which the task {attribute!r} was looked for")
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None and spec.loader is not None, "the file ends in .py and is there"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, attribute, None)
    made = found() if callable(found) else found
    if not isinstance(made, Task):
        raise InputError(f"{name} must be a Task or a function that returns one, got {type(made).__name__}")
    return made


def subject(
    task: str | Task, *, worlds: int, run: str | os.PathLike[str] | None = None, checkpoint: str = "last", seed: int = 0,
    device: str = "cpu",
) -> Subject:  # fmt: skip
    """A task with the policy of a run's checkpoint, or without a run a fresh one, as training would begin with.

    Args:
        task: A name out of `ahac.tasks()`, FILE.py:NAME, or a `Task`; it must be the run's if there is one.
        worlds: How many run side by side.
        run: Folder of the run whose policy acts.
        checkpoint: Of the run: last, best or iteration-NNNNNN.
        seed: Of a fresh policy, and of where episodes begin.
        device: cpu, cuda or auto.
    """
    where = chosen_device(device)
    opened = None if run is None else open_run(run)
    variant = "paper" if opened is None else opened.config.variant
    found = find_task(task, variant) if isinstance(task, str) else task
    if opened is not None and opened.config.task != (task if isinstance(task, str) else found.name):
        raise InputError(f"{opened.folder} is a run of {opened.config.task}, not of {task}; give it with its own task")
    env = make(found, num_envs=worlds, device=where, seed=seed, early_termination=False)
    about: dict[str, Any] = {"task": task if isinstance(task, str) else found.name, "variant": variant}
    if opened is None:
        algo = FirstOrder(recipe(found.name, "shac").learner, env.spec, seed)
        about["policy"] = {"fresh": seed}
    else:
        restored = Run(opened.folder, replace(opened.config, num_envs=1, device=where))
        restored.restore(checkpoint, with_env=False)
        algo = restored.algo
        numbers = read_numbers(opened.checkpoints / f"{checkpoint}.safetensors")
        about["policy"] = {"run": opened.folder.name, "checkpoint": checkpoint, "env_steps": int(numbers["env_steps"])}
    return Subject(env, algo.actor, algo.normalizer.view(), about)
