"""Loading of tasks and policies to study: a run, a task by name, or a task in a user's file."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ahac.algos.recipes import recipe
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.device import resolve_run_device
from ahac.core.errors import InputError
from ahac.core.task_names import is_task_file, split_task_file
from ahac.envs import VecEnv, make, make_task, tasks
from ahac.envs.task import Task
from ahac.nets.actor import SquashedGaussian
from ahac.nets.normalizer import FrozenNormalizer
from ahac.training.checkpoint import load_checkpoint
from ahac.training.run import Run, open_run

__all__ = ["StudyTarget", "find_task", "fingerprint", "load_target"]


@dataclass(frozen=True, eq=False)
class StudyTarget:
    """An env without early termination, and a policy."""

    env: VecEnv
    actor: SquashedGaussian
    normalize: FrozenNormalizer
    """Observation normalizer of the policy."""
    about: Mapping[str, Any]
    """Identity of task and policy, JSON-compatible."""

    def act(self, obs: Tensor) -> Tensor:
        """Return the policy's noise-free actions for raw observations."""
        with torch.no_grad():
            return self.actor(self.normalize(obs))


def find_task(name: str, variant: str = "paper") -> Task:
    """Return a task by name, or by FILE.py:NAME, where NAME is a `Task` or a function that returns one."""
    if is_task_file(name) or name in tasks():
        return make_task(name, variant)
    raise InputError(
        f"{name!r} is neither a run folder nor a task; tasks: {', '.join(tasks())}. Give your own task as "
        "FILE.py:NAME, where NAME is a Task in that file or a function that returns one"
    )


def fingerprint(what: str | os.PathLike[str] | Task, checkpoint: str = "last", seed: int = 0) -> dict[str, Any]:
    """Return the identity of task and policy, JSON-compatible, without loading them; arguments as in `load_target`."""
    if isinstance(what, Task):
        return {"task": what.name, "policy": {"fresh": seed}}
    if (run := _run_of(what)) is not None:
        path = run.checkpoints / f"{checkpoint}.safetensors"
        if not path.is_file():
            run.restore(checkpoint, with_env=False)  # raises an error that lists the checkpoints
        policy = {
            "run": run.folder.resolve().name,
            "checkpoint": checkpoint,
            "content": _hash(path),
            "env_steps": load_checkpoint(path).count("env_steps"),
        }
        return {"task": run.config.task, "policy": policy}
    about: dict[str, Any] = {"task": find_task(str(what)).name, "policy": {"fresh": seed}}
    if is_task_file(str(what)):
        about["source"] = _hash(*_sources(split_task_file(str(what))[0]))
    return about


def load_target(
    what: str | os.PathLike[str] | Task, *, worlds: int, checkpoint: str = "last", seed: int = 0, device: str = "cpu"
) -> StudyTarget:
    """Load a task with a policy.

    Args:
        what: A run folder, for its task and trained policy; or a task as a name, FILE.py:NAME or `Task`, for a newly
            initialized policy.
        worlds: Number of worlds.
        checkpoint: Checkpoint of a run: last, best or iteration-NNNNNN.
        seed: Random seed of a new policy and of initial states.
        device: cpu, cuda or auto.
    """
    resolved = resolve_run_device(device)
    run = None if isinstance(what, Task) else _run_of(what)
    if run is None:
        task = what if isinstance(what, Task) else find_task(str(what))
        env = make(task, num_envs=worlds, device=resolved, seed=seed, early_termination=False)
        algo = ShortHorizonActorCritic(recipe(task.recipe or task.name, "shac").algorithm, env.spec, seed)
    else:
        env = make(run.task, num_envs=worlds, device=resolved, seed=seed, early_termination=False)
        restored = run.with_settings(num_envs=1, device=resolved)
        restored.restore(checkpoint, with_env=False)
        if not isinstance(algo := restored.algo, ShortHorizonActorCritic):
            raise InputError(
                f"{run.folder} was trained with {run.config.algo}, whose policy cannot be studied; expected a run of "
                "ahac, ahac1, shac or bptt"
            )
    return StudyTarget(env, algo.actor, algo.normalizer.frozen(), fingerprint(what, checkpoint, seed))


def _sources(file: Path) -> list[Path]:
    """Return the file and the imported modules in the same folder."""
    names = [name for module in list(sys.modules.values()) if (name := getattr(module, "__file__", None))]
    return sorted({file, *(path for path in map(Path, names) if path.parent == file.parent)})


def _hash(*files: Path) -> str:
    """Return a hash of the contents of files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _run_of(what: str | os.PathLike[str]) -> Run | None:
    """Open the run if `what` is a folder, else return None."""
    return open_run(what) if str(what) not in tasks() and Path(what).is_dir() else None
