"""Training from Python: the same runs as the command line's."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from ahac.algos.recipes import recipe
from ahac.core.distributed import init_distributed
from ahac.training.config import RunConfig
from ahac.training.run import Run, create_run, open_run, prepare
from ahac.training.trainer import train as carry_on

__all__ = ["configure", "resume", "train"]


def configure(task: str, algo: str = "ahac", preset: str = "default", **settings: Any) -> RunConfig:  # noqa: ANN401 - fields of RunConfig
    """What a run would be made from: the recipe of a task and an algorithm, with settings of your own."""
    made = recipe(task, algo, preset)
    config = RunConfig(
        task=task,
        algo=algo,
        preset=preset,
        num_envs=made.num_envs,
        iterations=made.iterations,
        algorithm=made.algorithm,
    )
    return replace(config, **settings)


def train(task: str, algo: str = "ahac", preset: str = "default", **settings: Any) -> Run:  # noqa: ANN401 - fields of RunConfig
    """Train a policy, and return the run; in a program that torchrun started, together with its other processes.

    Args:
        task: A name out of `ahac.tasks()`.
        algo: "ahac", "ahac1", "shac", "bptt", "ppo", "sac" or "svg".
        preset: "default", "paper" or "released".
        settings: Any other field of `RunConfig`: seed, num_envs, iterations, device, out, learner, ...
    """
    run = create_run(configure(task, algo, preset, **settings), init_distributed())
    carry_on(run)
    return run


def resume(
    folder: str | os.PathLike[str],
    iterations: int | None = None,
    env_steps: int | None = None,
    checkpoint: str | None = None,
) -> Run:
    """Resume a run exactly from its last checkpoint, and return it.

    Args:
        folder: Of the run.
        iterations: Make the run longer or shorter, to this many in all; at least what is done. Learning rates then fall
            over the new number: they jump at this point, and the result is not that of a run so long from the start.
        env_steps: The same, in environment steps.
        checkpoint: Go back to this checkpoint, "best" or "iteration-NNNNNN". The last checkpoint and the table are kept
            under other names.
    """
    run = prepare(open_run(folder, init_distributed()), checkpoint, iterations, env_steps)
    carry_on(run)
    return run
