"""Runs that take seconds: few worlds, small networks, short rollouts; and what two of them have in common."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ahac.algos.config import ShortHorizonConfig
from ahac.algos.recipes import recipe
from ahac.training.checkpoint import load_checkpoint
from ahac.training.config import RunConfig


def timed(name: str) -> bool:
    """Whether a number differs from run to run."""
    return name.startswith("seconds") or name in ("steps_per_second", "compile_seconds")


def small_learner(task: str, algo: str, preset: str = "default") -> ShortHorizonConfig:
    made = recipe(task, algo, preset).algorithm
    critic = None if made.critic is None else replace(made.critic, hidden=(16,), epochs=6)
    horizon = replace(made.horizon, initial=8, min=4, max=16)
    return replace(made, actor=replace(made.actor, hidden=(16,)), critic=critic, horizon=horizon)


def small_config(out: Path, algo: str = "shac", preset: str = "default", **changes: Any) -> RunConfig:  # noqa: ANN401
    """Of hopper, whose first episodes end within a few rollouts."""
    task = str(changes.pop("task", "hopper"))
    first = RunConfig(
        task=task,
        algo=algo,
        preset=preset,
        num_envs=8,
        iterations=12,
        device="cpu",
        checkpoint_every=4,
        eval_episodes=4,
        out=str(out),
        algorithm=small_learner(task, algo, preset),
    )
    return replace(first, **changes)


def bits(tensors: dict[str, Tensor]) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Equal for the same bits, not-a-numbers among them."""
    return {name: (str(x.dtype), tuple(x.shape), x.contiguous().numpy().tobytes()) for name, x in tensors.items()}


def state(folder: Path, name: str = "last") -> dict[str, Any]:
    """Everything that a checkpoint holds, times apart."""
    saved = load_checkpoint(folder / "checkpoints" / f"{name}.safetensors")
    return {**bits(dict(saved.tensors)), **{key: x for key, x in saved.numbers.items() if not timed(key)}}


def table(folder: Path) -> list[dict[str, str]]:
    """metrics.csv as it is written, times apart."""
    with (folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        return [{name: x for name, x in row.items() if not timed(name)} for row in csv.DictReader(file)]
