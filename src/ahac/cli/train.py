"""`ahac train` and `ahac resume`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from ahac.cli.options import add_settings, read_settings
from ahac.cli.parser import HELP, Parser, whole_number
from ahac.core.errors import InputError

if TYPE_CHECKING:
    from ahac.training.config import RunConfig
    from ahac.training.run import Run

__all__ = ["resume", "train", "train_config"]


def train(arguments: list[str]) -> int:
    """Run `ahac train`."""
    parser, recipe = _train_parser(arguments or ["--help"])
    options = parser.parse(arguments or ["--help"])
    return _train(read_settings(recipe, options), options.watch)


def train_config(arguments: Sequence[str]) -> RunConfig:
    """Return the settings of the run that `ahac train` would start with these arguments."""
    parser, recipe = _train_parser(arguments)
    return read_settings(recipe, parser.parse(arguments))


def _train_parser(arguments: Sequence[str]) -> tuple[Parser, RunConfig]:
    """Return the parser and its defaults: the recipe that TASK, --algo and --preset select among the arguments."""
    from ahac.algos.recipes import ALGOS, PRESETS
    from ahac.envs import make_task, tasks
    from ahac.training.api import configure
    from ahac.training.config import RunConfig

    first = Parser("ahac train", "", "")
    first.add_argument("--algo", default="ahac")
    first.add_argument("--preset", default="default")
    first.add_argument("--watch", action="store_true")
    options, rest = first.parse_some([word for word in arguments if word not in HELP])
    if rest and not rest[0].startswith("-"):
        task = rest[0]
    elif HELP & set(arguments):
        task = "hopper"
    else:
        raise InputError(f"the task must come first: ahac train TASK [options]; TASK is one of {', '.join(tasks())}")
    make_task(task)
    recipe = configure(task, options.algo, options.preset)
    parser = Parser(
        "ahac train",
        "TASK [options]",
        "Train a policy and evaluate it. Ctrl-C stops with a checkpoint; continue with `ahac resume RUN`.\n\n"
        f"The defaults below are the recipe of {recipe.algo} on {recipe.task}, preset {recipe.preset}; "
        "`ahac train TASK --algo ALGO --help` shows those of another.\n\n"
        f"TASK: {', '.join(tasks())}\n--algo: {', '.join(ALGOS)}\n--preset: {', '.join(PRESETS)}",
        help_command=f"ahac train {task} --algo {recipe.algo} --help",
    )
    parser.add_argument("task", metavar="TASK", help="Name of the task: `ahac list tasks`.")
    parser.add_argument("--watch", action="store_true", help="Show the policy in the browser while it learns.")
    add_settings(parser, replace(recipe, algo=RunConfig.algo, preset=RunConfig.preset), skip=("task",))
    return parser, recipe


def resume(arguments: list[str]) -> int:
    """Run `ahac resume`."""
    parser = Parser("ahac resume", "RUN [options]", "Resume a run exactly from its last checkpoint.")
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument(
        "--checkpoint",
        metavar="NAME",
        help="return to this checkpoint: best, iteration-NNNNNN, ... The last checkpoint and the metrics are kept "
        "under other names (default: last)",
    )
    parser.add_argument(
        "--iterations",
        type=whole_number,
        metavar="N",
        help="change the run's length to N iterations in total, at least as many as are done. Learning rates then "
        "decay over N: they jump at this point, and the result differs from that of a run of N iterations from the "
        "start",
    )
    parser.add_argument("--env-steps", type=whole_number, metavar="N", help="the same, in environment steps")
    parser.add_argument(
        "--device",
        help="device to resume on (default: the original). On a different device type the random streams differ, so "
        "results are not bit-identical.",
    )
    options = parser.parse(arguments)

    from ahac.core.distributed import init_distributed
    from ahac.training.run import open_run, prepare

    run = open_run(options.run, init_distributed(), options.device)
    return _run_to_end(prepare(run, options.checkpoint, options.iterations, options.env_steps))


def _train(config: RunConfig, watch: bool) -> int:
    from ahac.cli.watch import viewer_process
    from ahac.core.distributed import init_distributed
    from ahac.envs import make_task
    from ahac.training.run import create_run

    ranks = init_distributed()
    run = create_run(config, ranks)
    c = run.config
    divided = f", divided among {ranks.size} ranks" if ranks.size > 1 else ""
    if ranks.is_main:
        sys.stderr.write(f"{c.algo} on {c.task}, {c.num_envs} worlds on {run.device}{divided}, in {run.folder}\n")
        for line in make_task(c.task, c.variant).randomized:
            sys.stderr.write(f"randomized in each episode: {line}\n")
    with viewer_process(run.folder) if watch and ranks.is_main else nullcontext():
        return _run_to_end(run)


def _run_to_end(run: Run) -> int:
    """Train to the end, evaluate, and print the result and the run folder."""
    try:
        from ahac.training.trainer import finish

        evaluation = finish(run)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(f"continue with `ahac resume {run.folder}`") from interrupt
    if not run.ranks.is_main:
        return 0  # only the main rank prints
    if evaluation is None:
        sys.stderr.write(f"stopped; continue with `ahac resume {run.folder}`\n")
        return 130
    sys.stdout.write(f"{evaluation}\n{run.folder}\n")
    return 0
