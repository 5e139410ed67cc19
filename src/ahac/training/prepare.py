"""Preparation of a run for resuming: another checkpoint, another length."""

from __future__ import annotations

from dataclasses import replace

from ahac.core.errors import InputError
from ahac.training.checkpoint import LAST, load_checkpoint
from ahac.training.config import RunConfig
from ahac.training.run import Run
from ahac.training.run_settings import write_settings

__all__ = ["prepare"]


def prepare(
    run: Run, checkpoint: str | None = None, iterations: int | None = None, env_steps: int | None = None
) -> Run:
    """Prepare a run for resuming, optionally from an earlier checkpoint or with a new length, and return it.

    Learning rates decay over the new length. They jump at this point, so the result differs from a run started with
    that length.
    """
    run.ranks.run_on_rank_zero(run.check_trainable)
    config = run.config
    if iterations is not None or env_steps is not None:
        config = run.ranks.run_on_rank_zero(lambda: _with_new_length(run, checkpoint or LAST, iterations, env_steps))
    if checkpoint is not None:
        run.rewind_to(checkpoint)
    if config is run.config:
        return run
    run.ranks.run_on_rank_zero(lambda: write_settings(run.folder, config))
    return run.with_settings(iterations=config.iterations, env_steps=config.env_steps)


def _with_new_length(run: Run, checkpoint: str, iterations: int | None, env_steps: int | None) -> RunConfig:
    """Return the settings with a new length; raise an InputError if the checkpoint is already past it."""
    if iterations is not None and env_steps is not None:
        raise InputError("the length of a run is either iterations or env_steps, got both; give one of them")
    config = replace(
        run.config, iterations=run.config.iterations if iterations is None else iterations, env_steps=env_steps
    )
    unit, length = config.length
    path = run.path_of(checkpoint)
    done = load_checkpoint(path).count(unit) if path.is_file() else 0
    if length < done:
        raise InputError(
            f"{run.folder} has done {done} {unit.removesuffix('s')}s; the new length must be at least that, got "
            f"{length}; to resume from an earlier state, use --checkpoint"
        )
    return config
