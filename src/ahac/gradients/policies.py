"""What is looked at: a task by name or out of a file of the user's own, and a policy that acts in it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ahac.algos.recipes import recipe
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.device import resolve_run_device
from ahac.core.errors import InputError
from ahac.envs import VecEnv, make, make_task, tasks
from ahac.envs.task import Task
from ahac.nets.actor import Actor
from ahac.nets.normalizer import FrozenNormalizer
from ahac.training.checkpoint import load_checkpoint
from ahac.training.run import Run, open_run

__all__ = ["StudyTarget", "find_task", "fingerprint", "load_target"]


@dataclass(frozen=True, eq=False)
class StudyTarget:
    """Worlds of a task that does not end episodes early, and a policy."""

    env: VecEnv
    actor: Actor
    normalize: FrozenNormalizer
    """How the policy sees observations."""
    about: Mapping[str, Any]
    """Which task and policy it is, as JSON has it; the same for the same."""

    def act(self, obs: Tensor) -> Tensor:
        """The policy's action without noise, from raw observations."""
        with torch.no_grad():
            return self.actor(self.normalize(obs))


def find_task(name: str, variant: str = "paper") -> Task:
    """A task by its name, or by FILE.py:NAME, where NAME is a `Task` or a function that returns one."""
    file, colon, attribute = name.rpartition(":")
    if not colon or not file.endswith(".py"):
        if name in tasks():
            return make_task(name, variant)
        raise InputError(
            f"{name!r} is neither a run's folder nor a task; tasks: {', '.join(tasks())}. One of your own is given as "
            "FILE.py:NAME, where NAME is a Task in that file or a function that returns one"
        )
    if not Path(file).is_file():
        raise InputError(f"there is no file {file!r}, in which the task {attribute!r} was looked for")
    with _own_file(Path(file).resolve()):
        found = getattr(_module(Path(file).resolve()), attribute, None)
        made = found() if callable(found) else found
    if not isinstance(made, Task):
        raise InputError(f"{name} must be a Task or a function that returns one, got {type(made).__name__}")
    return made


def fingerprint(what: str | os.PathLike[str] | Task, checkpoint: str = "last", seed: int = 0) -> dict[str, Any]:
    """Which task and policy it is, as JSON has it, without making anything of them: arguments as of `subject`."""
    if isinstance(what, Task):
        return {"task": what.name, "policy": {"fresh": seed}}
    if (run := _run_of(what)) is not None:
        path = run.checkpoints / f"{checkpoint}.safetensors"
        if not path.is_file():
            run.restore(checkpoint, with_env=False)  # says which there are
        policy = {
            "run": run.folder.resolve().name,
            "checkpoint": checkpoint,
            "content": _hash(path),
            "env_steps": load_checkpoint(path).count("env_steps"),
        }
        return {"task": run.config.task, "policy": policy}
    about: dict[str, Any] = {"task": find_task(str(what)).name, "policy": {"fresh": seed}}
    if ".py:" in str(what):
        about["source"] = _hash(*_sources(Path(str(what).rpartition(":")[0]).resolve()))
    return about


def load_target(
    what: str | os.PathLike[str] | Task, *, worlds: int, checkpoint: str = "last", seed: int = 0, device: str = "cpu"
) -> StudyTarget:
    """A task with a policy.

    Args:
        what: The folder of a run, whose policy then acts in its task; or a task, by name, as FILE.py:NAME or as it is,
            with a fresh policy, as training would begin with.
        worlds: How many run side by side.
        checkpoint: Of a run: last, best or iteration-NNNNNN.
        seed: Of a fresh policy, and of where episodes begin.
        device: cpu, cuda or auto.
    """
    where = resolve_run_device(device)
    run = None if isinstance(what, Task) else _run_of(what)
    if run is None:
        task = what if isinstance(what, Task) else find_task(str(what))
        env = make(task, num_envs=worlds, device=where, seed=seed, early_termination=False)
        algo = ShortHorizonActorCritic(recipe(task.name, "shac").algorithm, env.spec, seed)
    else:
        task = make_task(run.config.task, run.config.variant)
        env = make(task, num_envs=worlds, device=where, seed=seed, early_termination=False)
        restored = Run(run.folder, replace(run.config, num_envs=1, device=where))
        restored.restore(checkpoint, with_env=False)
        if not isinstance(algo := restored.algo, ShortHorizonActorCritic):
            raise InputError(
                f"{run.folder} was trained by {run.config.algo}, whose policy cannot be studied here; wanted a run of "
                "ahac, ahac1, shac or bptt"
            )
    return StudyTarget(env, algo.actor, algo.normalizer.frozen(), fingerprint(what, checkpoint, seed))


@contextmanager
def _own_file(file: Path) -> Iterator[None]:
    """Within, the file's neighbours can be imported, and what goes wrong is told as the file's."""
    folder = str(file.parent)
    sys.path.insert(0, folder)
    try:
        yield
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        where = f"{file}, line {lines[-1]}" if lines else f"{file}"
        raise InputError(
            f"{where}: {type(error).__name__}: {error}; wanted a file that Python runs to its end, put it right first"
        ) from error
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _module(file: Path) -> ModuleType:
    """Run the file, as a module with a name that no other has."""
    name = f"_ahac_own_{hashlib.sha256(str(file).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, "a .py file has a loader"
    assert spec.loader is not None, "a .py file has a loader"
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _sources(file: Path) -> list[Path]:
    """The file, and its neighbours that were imported."""
    names = [name for module in list(sys.modules.values()) if (name := getattr(module, "__file__", None))]
    return sorted({file, *(path for path in map(Path, names) if path.parent == file.parent)})


def _hash(*files: Path) -> str:
    """Of what they hold."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _run_of(what: str | os.PathLike[str]) -> Run | None:
    """The run, if it is the folder of one."""
    return open_run(what) if str(what) not in tasks() and Path(what).is_dir() else None
