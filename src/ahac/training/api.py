"""Train and resume runs from Python; the runs are the same as those of the command line."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from ahac.algos.recipes import recipe
from ahac.core.distributed import init_distributed
from ahac.training.config import RunConfig
from ahac.training.run import Run, create_run, open_run, prepare
from ahac.training.trainer import train as train_run

__all__ = ["configure", "resume", "train"]


def configure(task: str, algo: str = "ahac", preset: str = "default", **settings: Any) -> RunConfig:  # noqa: ANN401 - fields of RunConfig
    """Return the run settings of a task's recipe, with the given fields of `RunConfig` replaced."""
    base = recipe(task, algo, preset)
    config = RunConfig(
        task=task,
        algo=algo,
        preset=preset,
        num_envs=base.num_envs,
        iterations=base.iterations,
        algorithm=base.algorithm,
    )
    return replace(config, **settings)


def train(task: str, algo: str = "ahac", preset: str = "default", **settings: Any) -> Run:  # noqa: ANN401 - fields of RunConfig
    """Train a policy and return the run. Under torchrun, all processes train together.

    Args:
        task: Task name, one of `ahac.tasks()`.
        algo: "ahac", "ahac1", "shac", "bptt", "ppo", "sac" or "svg".
        preset: "default", "paper" or "released".
        settings: Any other field of `RunConfig`: seed, num_envs, iterations, device, out, algorithm, ...
    """
    run = create_run(configure(task, algo, preset, **settings), init_distributed())
    train_run(run)
    return run


def resume(
    folder: str | os.PathLike[str],
    iterations: int | None = None,
    env_steps: int | None = None,
    checkpoint: str | None = None,
) -> Run:
    """Resume a run bit-exactly from its last checkpoint and return it.

    Args:
        folder: Run folder.
        iterations: New total number of iterations, at least the number already done. Learning rates then decay over the
            new length: they jump at this point, so the result differs from a run started with that length.
        env_steps: New total number of environment steps; the same caveat applies.
        checkpoint: Resume from this checkpoint instead, "best" or "iteration-NNNNNN". The replaced last checkpoint and
            metrics.csv are kept under other names.
    """
    run = prepare(open_run(folder, init_distributed()), checkpoint, iterations, env_steps)
    train_run(run)
    return run
