"""`ahac eval`: evaluate a trained policy."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ahac.cli.parser import Parser, number, whole_number
from ahac.cli.play import add_command_option, add_engine_options, engine_settings, warn_outside_ranges
from ahac.cli.pretrained import add_pretrained_option, add_trust_option, run_folder
from ahac.cli.progress import progress_of
from ahac.view.recording import check_target, formats_help, save_recording

if TYPE_CHECKING:
    from ahac.training.checkpoint import Checkpoint
    from ahac.training.engines import EngineEvaluation
    from ahac.training.run import Run

__all__ = ["evaluate"]

logger = logging.getLogger("ahac")

Save = Callable[["Checkpoint"], Path]
"""Saves a result for the checkpoint that was evaluated."""

ABOUT = (
    "Evaluate a policy over whole episodes, without action noise.\n\n"
    "Results are saved to evaluation.json only for the last checkpoint, with the run's own evaluation seed and at "
    "least its eval_episodes; otherwise, and with --pretrained or --command, they are only printed.\n\n"
    "With --command, falls are shown as well, and, of tasks that record them, tracking error and gait. With --engine "
    "mujoco, the policy is evaluated in MuJoCo and in our own engine, side by side; the same rule applies to "
    "evaluation-mujoco.json, which with --model FILE is evaluation-mujoco-FILE.json."
)


def evaluate(arguments: list[str]) -> int:
    """Run `ahac eval`."""
    options = _options(arguments)

    from ahac.core.device import fallback_device
    from ahac.training.run import open_run

    run = open_run(options.run, trust=options.trust)
    run = run.with_settings(device=options.device or fallback_device(run.config.device))
    checkpoint = run.restore(options.checkpoint, with_env=False)
    standard = not checkpoint.policy_only and options.checkpoint == "last" and options.seed in (None, run.eval_seed)
    standard = standard and (options.episodes is None or options.episodes >= run.config.eval_episodes)
    standard = standard and options.command is None
    if options.command is not None:
        warn_outside_ranges(run.task, options.command)
    measure = options.engine == "mujoco" or options.command is not None
    save = (_measure if measure else _evaluate)(run, options)
    if standard:
        try:
            save(checkpoint)
        except OSError as error:  # a read-only folder
            logger.warning("could not save the result in the run folder: %s", error)
    if options.save_trajectory is not None:
        seed = run.eval_seed if options.seed is None else options.seed
        _save_trajectory(run, options, seed)
        sys.stdout.write(f"{options.save_trajectory}\n")
    return 0


def _evaluate(run: Run, options: argparse.Namespace) -> Save:
    """Evaluate as in training."""
    evaluation = run.evaluate(options.episodes, options.seed)
    sys.stdout.write(f"{evaluation}\n")
    return lambda checkpoint: run.save_evaluation(evaluation, checkpoint)


def _measure(run: Run, options: argparse.Namespace) -> Save:
    """Evaluate returns, tracking and gait in our own engine, and in MuJoCo if that is chosen."""
    from ahac.core.checks import check_int
    from ahac.training.engines import EngineSettings, comparison_table, evaluate_in_engine, save_engine_evaluation

    episodes = check_int("episodes", run.config.eval_episodes if options.episodes is None else options.episodes, 1)
    results: list[EngineEvaluation] = []
    engines = [EngineSettings(engine="ahac", num_threads=options.threads)]
    if options.engine == "mujoco":
        engines.append(engine_settings(options))
    for settings in engines:
        with progress_of(f"evaluating {episodes} episodes in {settings.engine}") as show:
            results.append(
                evaluate_in_engine(
                    run, settings, command=options.command, episodes=episodes, seed=options.seed, progress=show
                )
            )
    command = ""
    if options.command is not None:
        forward, left, turn = options.command
        command = f", command: {forward:g} m/s forward, {left:g} m/s left, {turn:g} rad/s"
    count = len(results[0].evaluation.returns)
    sys.stdout.write(f"{count} {'episode' if count == 1 else 'episodes'}{command}\n")
    sys.stdout.write("".join(f"{line}\n" for line in comparison_table(results)))
    return lambda checkpoint: save_engine_evaluation(run, results, checkpoint)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("ahac eval", "RUN [options]", ABOUT)
    parser.add_argument("run", metavar="RUN", help="run folder; with --pretrained, name of a task")
    add_pretrained_option(parser)
    add_trust_option(parser)
    parser.add_argument(
        "--episodes", type=whole_number, metavar="N", help="number of episodes (default: the run's eval_episodes)"
    )
    parser.add_argument(
        "--checkpoint", default="last", metavar="NAME", help="last, best or iteration-NNNNNN (default: last)"
    )
    parser.add_argument(
        "--seed", type=whole_number, metavar="N", help="random seed of the resets (default: the run's evaluation seed)"
    )
    parser.add_argument(
        "--device", help="auto, cpu, cuda or cuda:N (default: the run's device, or the CPU if it is not available)"
    )
    parser.add_argument(
        "--save-trajectory",
        type=Path,
        metavar="FILE",
        help=f"also save the motion of one world; the suffix selects the format: {formats_help()}",
    )
    parser.add_argument(
        "--seconds", type=number, default=10.0, metavar="S", help="length of that trajectory (default: 10)"
    )
    add_command_option(parser)
    add_engine_options(parser)
    options = parser.parse(arguments)
    options.run = run_folder(options.run, options.pretrained)
    engine_settings(options)

    from ahac.core.checks import check_finite

    # Before the evaluation, which may take minutes.
    if options.save_trajectory is not None:
        check_target(options.save_trajectory, "a trajectory")
    check_finite("seconds", options.seconds, 0.0)
    return options


def _save_trajectory(run: Run, options: argparse.Namespace, seed: int) -> None:
    """Save the motion of the policy in a separate environment of one world."""
    from ahac.envs import hold_command, make
    from ahac.training.engines import engine_env
    from ahac.training.viewing import EnvSource, record_trajectory

    task = run.task if options.command is None else hold_command(run.task)
    if options.engine == "mujoco":
        env = engine_env(task, engine_settings(options), 1, seed, run.device)
    else:
        env = make(task, num_envs=1, device=run.device, seed=seed)
    source = EnvSource(env, run.algo.act)
    if options.command is not None:
        source.set_command(tuple(options.command))  # observed from the reset on, which starts the recording
    save_recording(record_trajectory(source, options.seconds), options.save_trajectory)
