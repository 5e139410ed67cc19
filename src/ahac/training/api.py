"""Training from Python: the same runs as the command line's."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from ahac.algos.recipes import recipe
from ahac.training.config import RunConfig
from ahac.training.run import Run, open_run, start
from ahac.training.trainer import train as carry_on

__all__ = ["configure", "resume", "train"]


def configure(task: str, algo: str = "ahac", preset: str = "default", **settings: Any) -> RunConfig:  # noqa: ANN401 - fields of RunConfig
    """What a run would be made from: the recipe of a task and an algorithm, with settings of your own."""
    made = recipe(task, algo, preset)
    config = RunConfig(
        task=task, algo=algo, preset=preset, num_envs=made.num_envs, iterations=made.iterations, learner=made.learner
    )
    return replace(config, **settings)


def train(task: str, algo: str = "ahac", preset: str = "default", **settings: Any) -> Run:  # noqa: ANN401 - fields of RunConfig
    """Train a policy, and return the run.

    Args:
        task: A name out of `ahac.tasks()`.
        algo: "ahac", "ahac1", "shac" or "bptt".
        preset: "default", "paper" or "released".
        settings: Any other field of `RunConfig`: seed, num_envs, iterations, device, out, learner, ...
    """
    run = start(configure(task, algo, preset, **settings))
    carry_on(run)
    return run


def resume(folder: str | os.PathLike[str]) -> Run:
    """Go on with a run exactly where its last checkpoint is, and return it."""
    run = open_run(folder)
    carry_on(run)
    return run
