"""`ahac eval`: what a run's policy is worth, and what it does."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ahac.cli.play import RECORDINGS, check_suffix, write_trajectory
from ahac.core.checks import check_finite

if TYPE_CHECKING:
    from ahac.training.run import Run

__all__ = ["evaluate"]

logger = logging.getLogger("ahac")

ABOUT = """Whole episodes under the policy's best actions. The result is kept in the run's evaluation.json if it is
of the last checkpoint, of the run's own evaluation seed, and of as many episodes as the run's settings ask for, or
more; else it is only shown."""


def evaluate(arguments: list[str]) -> int:
    """evaluate a run's policy"""
    from ahac.core.device import fallback_device
    from ahac.training.run import open_run

    options = _options(arguments)
    device = options.device or fallback_device(open_run(options.run).config.device)
    run = open_run(options.run, device=device)
    saved = run.restore(options.checkpoint, with_env=False)
    found = run.evaluate(options.episodes, options.seed)
    sys.stdout.write(f"{found}\n")
    own = options.checkpoint == "last" and options.seed in (None, run.eval_seed)
    if own and len(found.returns) >= run.config.eval_episodes:
        try:
            run.save_evaluation(found, saved)
        except OSError as error:  # of a folder that can only be read
            logger.warning("could not save the result in the run folder: %s", error)
    if options.save_trajectory is not None:
        _save(run, options.save_trajectory, options.seconds, run.eval_seed if options.seed is None else options.seed)
        sys.stdout.write(f"{options.save_trajectory}\n")
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    kinds = ", ".join(f"{suffix} ({what})" for suffix, what in RECORDINGS.items())
    parser = argparse.ArgumentParser(prog="ahac eval", description=ABOUT)
    parser.add_argument("run", help="folder of the run")
    parser.add_argument("--episodes", type=int, help="how many (default: as the run's settings say)")
    parser.add_argument("--checkpoint", default="last", help="last, best, or iteration-NNNNNN (default: last)")
    parser.add_argument("--seed", type=int, help="of the episodes' starts (default: the run's own for evaluations)")
    parser.add_argument("--device", help="auto, cpu, cuda or cuda:N (default: the run's own, or the CPU without a GPU)")
    parser.add_argument("--save-trajectory", type=Path, metavar="FILE", help=f"write what one world does, too: {kinds}")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of that trajectory (default: 10)")
    options = parser.parse_args(arguments)
    # Before the evaluation, which may take minutes.
    if options.save_trajectory is not None:
        check_suffix(options.save_trajectory, "a trajectory")
    check_finite("seconds", options.seconds, 0.0)
    return options


def _save(run: Run, path: Path, seconds: float, seed: int) -> None:
    """Write what the policy does in a world of its own."""
    from ahac.envs import make
    from ahac.training.viewing import EnvSource, record_trajectory

    env = make(run.config.task, num_envs=1, device=run.device, seed=seed, variant=run.config.variant)
    write_trajectory(record_trajectory(EnvSource(env, run.algo.act), seconds), path)
