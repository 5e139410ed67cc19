"""Evaluation of a run's policy on physics engines: our own, and MuJoCo."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ahac.core.checks import check_int
from ahac.core.env import Step
from ahac.core.errors import InputError
from ahac.core.files import write_json
from ahac.core.table import table_lines
from ahac.engines import Engine, EngineEnv, MujocoEngine, NativeEngine
from ahac.engines.locomotion import Locomotion, Recording, measure
from ahac.envs import Task, hold_command, set_command
from ahac.training.checkpoint import LAST, Checkpoint
from ahac.training.evaluate import Evaluation, evaluate
from ahac.training.process import torch_settings
from ahac.training.run import Run

__all__ = [
    "ENGINES",
    "EngineEvaluation",
    "EngineSettings",
    "comparison_table",
    "engine_env",
    "evaluate_in_engine",
    "save_engine_evaluation",
]

ENGINES = (NativeEngine.name, MujocoEngine.name)
"""Names of the engines."""
MAX_WORLDS = 128


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """An engine and its settings."""

    engine: str = MujocoEngine.name
    """Name of the engine."""
    model: str | os.PathLike[str] | None = None
    """Of MuJoCo: file of the robot; None means the task's own."""
    timestep: float | None = None
    """Of MuJoCo: duration of an integration step [s]; None means 2 ms."""
    num_threads: int | None = None
    """Number of CPU threads; None means all cores."""

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise InputError(f"no engine named {self.engine!r}; known: {', '.join(ENGINES)}")
        if self.engine != MujocoEngine.name and (self.model is not None or self.timestep is not None):
            raise InputError(f"model and timestep are settings of the engine 'mujoco', got them for {self.engine!r}")

    def make(self, task: Task, num_worlds: int, device: torch.device) -> Engine:
        """Create the engine for a task."""
        if self.engine == NativeEngine.name:
            return NativeEngine(task, num_worlds=num_worlds, device=device, num_threads=self.num_threads)
        timestep = {} if self.timestep is None else {"timestep": self.timestep}
        return MujocoEngine(task, num_worlds=num_worlds, model=self.model, num_threads=self.num_threads, **timestep)


@dataclass(frozen=True)
class EngineEvaluation:
    """Evaluation of a policy on an engine."""

    settings: EngineSettings
    evaluation: Evaluation
    locomotion: Locomotion
    """Falls and action rate, and what follows from the task's signals."""

    def rows(self) -> list[tuple[str, str]]:
        """Return name and value of each number."""
        low, high = self.evaluation.interval()
        return [
            ("return, mean", f"{self.evaluation.mean:.1f}"),
            ("return, interquartile mean", f"{self.evaluation.iqm:.1f}"),
            ("its 95% interval", f"{low:.1f} to {high:.1f}"),
            ("episode length [steps]", f"{self.evaluation.lengths.mean():.0f}"),
            *self.locomotion.rows(),
        ]

    def summary(self) -> dict[str, object]:
        """Return all numbers as a JSON-serializable dictionary."""
        s = self.settings
        about = {"engine": s.engine, "model": None if s.model is None else str(s.model), "timestep": s.timestep}
        return {**about, **self.evaluation.summary(), **self.locomotion.summary()}


def engine_env(task: Task, settings: EngineSettings, num_worlds: int, seed: int, device: torch.device) -> EngineEnv:
    """Create an environment of a task on an engine."""
    engine = settings.make(task, num_worlds, device)
    return EngineEnv(task, engine, seed=seed, device=device, num_threads=settings.num_threads)


def evaluate_in_engine(
    run: Run,
    settings: EngineSettings | None = None,
    *,
    command: tuple[float, float, float] | None = None,
    episodes: int | None = None,
    seed: int | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
) -> EngineEvaluation:
    """Evaluate the policy of a run over complete episodes on an engine.

    Without a command, episodes begin as in `Run.evaluate`. With one, they begin in other states, because no random
    numbers are drawn for commands.

    Args:
        run: A run whose checkpoint is loaded: `run.restore("last", with_env=False)`.
        settings: The engine; MuJoCo with the task's own robot by default.
        command: Velocity to follow in all episodes, forward and to the left [m/s], and yaw rate [rad/s]; by default
            commands vary as in training.
        episodes: Number of episodes; the run's eval_episodes by default.
        seed: Random seed; the run's evaluation seed by default.
        progress: Called after every step with the fraction of the episodes that have ended.
    """
    settings = settings or EngineSettings()
    count = check_int("episodes", run.config.eval_episodes if episodes is None else episodes, 1)
    worlds = min(count, MAX_WORLDS)
    if command is not None and len(command) != 3:
        raise InputError(f"command must be three numbers, forward, left and yaw rate, got {command!r}")
    task = run.task if command is None else hold_command(run.task)
    env = engine_env(task, settings, worlds, run.eval_seed if seed is None else seed, run.device)
    if command is not None:
        set_command(env, *command)
    recorder = _Recorder(env, -(-count // worlds))
    with torch_settings(run.config, run.device):
        evaluation = evaluate(env, run.algo.act, count, [recorder.add, lambda step: progress(recorder.fraction)])
    return EngineEvaluation(settings, evaluation, measure(recorder.recording()))


def comparison_table(results: Sequence[EngineEvaluation]) -> list[str]:
    """Return the numbers of evaluations on several engines as lines of text, a column for each."""
    columns = [dict(result.rows()) for result in results]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [[name, *(column.get(name, "") for column in columns)] for name in names]
    return table_lines(["", *(result.settings.engine for result in results)], rows)


def save_engine_evaluation(run: Run, results: Sequence[EngineEvaluation], last: Checkpoint) -> Path:
    """Write evaluation-ENGINE.json, or evaluation-ENGINE-MODEL.json, for evaluations of the last checkpoint.

    The last of them names the file.
    """
    settings = results[-1].settings
    model = "" if settings.model is None else f"-{Path(settings.model).stem}"
    path = run.folder / f"evaluation-{settings.engine}{model}.json"
    about = {
        "checkpoint": LAST,
        "iteration": last.count("iteration"),
        "env_steps": last.count("env_steps"),
        "seed": run.eval_seed,
    }
    write_json(path, about | {"engines": [result.summary() for result in results]}, checksum=True)
    return path


class _Recorder:
    """Keeps what an environment does during an evaluation."""

    def __init__(self, env: EngineEnv, episodes: int) -> None:
        """Count the first episodes of every world."""
        self._env = env
        self._episodes = episodes
        self._finished = np.zeros(env.spec.num_envs, dtype=int)
        self._steps: list[dict[str, np.ndarray]] = []

    def add(self, step: Step) -> None:
        """Add a step."""
        done = step.done.cpu().numpy()
        self._steps.append(
            {
                **{f"signals.{name}": x.cpu().numpy() for name, x in self._env.signals.items()},
                "action": step.action.cpu().numpy(),
                "done": done,
                "terminated": step.terminated.cpu().numpy(),
                "counted": self._finished < self._episodes,
            }
        )
        self._finished += done

    @property
    def fraction(self) -> float:
        """Fraction of the counted episodes that have ended."""
        return float(np.minimum(self._finished / self._episodes, 1.0).mean())

    def recording(self) -> Recording:
        """Return everything that was added."""
        found = {name: np.stack([step[name] for step in self._steps]) for name in self._steps[0]}
        signals = {name.removeprefix("signals."): x for name, x in found.items() if name.startswith("signals.")}
        rest = {name: found[name] for name in ("action", "done", "terminated", "counted")}
        return Recording(signals=signals, **rest, dt=self._env.spec.dt)
