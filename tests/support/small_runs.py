"""Small runs that train in seconds, and comparisons between them."""

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
    """Return whether a metric is a time, which differs between identical runs."""
    return name.startswith("seconds") or name in ("steps_per_second", "compile_seconds")


def small_algorithm(task: str, algo: str, preset: str = "default") -> ShortHorizonConfig:
    base = recipe(task, algo, preset).algorithm
    critic = None if base.critic is None else replace(base.critic, hidden=(16,), epochs=6)
    horizon = replace(base.horizon, initial=8, min=4, max=16)
    return replace(base, actor=replace(base.actor, hidden=(16,)), critic=critic, horizon=horizon)


def small_config(out: Path, algo: str = "shac", preset: str = "default", **changes: Any) -> RunConfig:  # noqa: ANN401
    """Return a small run on hopper, whose first episodes end within a few rollouts."""
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
        algorithm=small_algorithm(task, algo, preset),
    )
    return replace(first, **changes)


def bits(tensors: dict[str, Tensor]) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Return values that compare equal for equal bits, including NaN."""
    return {name: (str(x.dtype), tuple(x.shape), x.contiguous().numpy().tobytes()) for name, x in tensors.items()}


def state(folder: Path, name: str = "last") -> dict[str, Any]:
    """Return the content of a checkpoint, without times."""
    saved = load_checkpoint(folder / "checkpoints" / f"{name}.safetensors")
    return {**bits(dict(saved.tensors)), **{key: x for key, x in saved.numbers.items() if not timed(key)}}


def table(folder: Path) -> list[dict[str, str]]:
    """Return metrics.csv as written, without times."""
    with (folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        return [{name: x for name, x in row.items() if not timed(name)} for row in csv.DictReader(file)]
