"""`ahac train` and `ahac resume`."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

from ahac.core.errors import InputError

if TYPE_CHECKING:
    from ahac.training.config import RunConfig
    from ahac.training.run import Run

__all__ = ["HELP", "resume", "settings", "train"]

HELP = {"-h", "--help"}
LONGER = """change the run's length to N iterations in total, at least as many as are done. Learning rates then decay
over N: they jump at this point, and the result is not that of a run of N iterations from the start"""
ELSEWHERE = """device to resume on (default: the run's own). On another kind of device the random numbers differ from
here on, so the result is not bit-identical"""
CHECKPOINT = """go back to this checkpoint: best, iteration-NNNNNN, ...; the last checkpoint and the table are kept
under other names (default: last)"""
WATCH = "--watch"
"""Not a setting of the run: taken off the arguments before they are read as such."""


def train(arguments: list[str]) -> int:
    """train a policy"""
    from ahac.envs import tasks

    watch = WATCH in arguments
    arguments = [word for word in arguments if word != WATCH]
    named = arguments[:1] if arguments and not arguments[0].startswith("-") else []
    if not named and not HELP & set(arguments) and arguments:
        raise InputError(f"say what to train first: ahac train TASK [options]; TASK is one of {', '.join(tasks())}")
    config = settings((named or ["hopper"])[0], arguments[1:] if named else [*arguments, "--help"])
    return _train(config, watch)


def settings(task: str, arguments: list[str]) -> RunConfig:
    """What a run of this task is made from: the recipe that --algo and --preset choose, with all other options."""
    import tyro

    from ahac.algos.recipes import ALGOS, PRESETS
    from ahac.envs import make_task, tasks
    from ahac.training.api import configure
    from ahac.training.config import RunConfig

    first = argparse.ArgumentParser(prog="ahac train", add_help=False, allow_abbrev=False)
    first.add_argument("--algo", default="ahac")
    first.add_argument("--preset", default="default")
    chosen, _ = first.parse_known_args(arguments)
    make_task(task)
    recipe = configure(task, chosen.algo, chosen.preset)
    text = (
        "Train a policy. Ctrl-C stops with a checkpoint; continue with `ahac resume RUN`.\n\n"
        f"With {WATCH}, the policy is shown in the browser while it learns.\n\n"
        f"Defaults below: the recipe of {recipe.algo} on {recipe.task}, preset {recipe.preset}.\n\n"
        f"TASK: {', '.join(tasks())}\n--algo: {', '.join(ALGOS)}\n--preset: {', '.join(PRESETS)}"
    )
    plain = tyro.conf.configure(tyro.conf.AvoidSubcommands, tyro.conf.SuppressFixed)(RunConfig)
    return tyro.cli(plain, default=recipe, args=arguments, prog="ahac train TASK", description=text)


def resume(arguments: list[str]) -> int:
    """resume a run"""
    from ahac.core.distributed import init_distributed
    from ahac.training.run import open_run, prepare

    parser = argparse.ArgumentParser(prog="ahac resume", description="Resume a run exactly from its last checkpoint.")
    parser.add_argument("run", help="folder of the run")
    parser.add_argument("--checkpoint", metavar="NAME", help=CHECKPOINT)
    parser.add_argument("--iterations", type=int, metavar="N", help=LONGER)
    parser.add_argument("--env-steps", type=int, metavar="N", help="the same, in environment steps")
    parser.add_argument("--device", help=ELSEWHERE)
    options = parser.parse_args(arguments)
    run = open_run(options.run, init_distributed(), options.device)
    return _run_to_end(prepare(run, options.checkpoint, options.iterations, options.env_steps))


def _train(config: RunConfig, watch: bool) -> int:
    from ahac.cli.watch import viewer_process
    from ahac.core.distributed import init_distributed
    from ahac.training.run import create_run

    run = create_run(config, ranks := init_distributed())
    c = run.config
    divided = f", divided among {ranks.size} ranks" if ranks.size > 1 else ""
    if ranks.is_main:
        sys.stderr.write(f"{c.algo} on {c.task}, {c.num_envs} worlds on {run.device}{divided}, in {run.folder}\n")
    with viewer_process(run.folder) if watch and ranks.is_main else nullcontext():
        return _run_to_end(run)


def _run_to_end(run: Run) -> int:
    """Train to the end, evaluate, and say where it is."""
    try:
        from ahac.training.trainer import finish

        found = finish(run)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(f"continue with `ahac resume {run.folder}`") from interrupt
    if not run.ranks.is_main:
        return 0  # the first speaks for all
    if found is None:
        sys.stderr.write(f"stopped; continue with `ahac resume {run.folder}`\n")
        return 130
    sys.stdout.write(f"{found}\n{run.folder}\n")
    return 0
