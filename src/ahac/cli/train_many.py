"""`ahac train TASK --algo A B --seeds 0 1 2`: train all combinations, several at a time, and compare them."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ahac.cli.compare import lines
from ahac.cli.live_table import SweepDisplay
from ahac.cli.outcomes import summary
from ahac.cli.parser import Parser, whole_number
from ahac.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ahac.training.config import RunConfig

__all__ = ["add_grid_options", "split_grid", "train_many"]


def add_grid_options(parser: Parser) -> None:
    """Add the options that make several runs of one command."""
    parser.add_argument(
        "--seeds",
        type=whole_number,
        nargs="+",
        metavar="N",
        help="train one run for each of these random seeds, and for each --algo if there are several",
    )
    parser.add_argument(
        "--jobs",
        type=whole_number,
        metavar="N",
        help="with several runs: how many at a time (default: as for `ahac sweep`)",
    )


def split_grid(arguments: Sequence[str]) -> tuple[argparse.Namespace | None, list[str]]:
    """Return several algorithms and seeds, and the other words; None and all words if the command makes one run."""
    parser = Parser("ahac train", "TASK [options]", "")
    parser.add_argument("--algo", nargs="+", default=["ahac"], metavar="ALGO")
    add_grid_options(parser)
    options, rest = parser.parse_some(arguments)
    if options.seeds is None and len(options.algo) == 1:
        if options.jobs is not None:
            raise InputError("--jobs is how many of several runs train at a time; add --seeds, or several --algo")
        return None, list(arguments)
    given = {word.partition("=")[0] for word in rest}
    for name, reason in {
        "--seed": "--seeds lists the seeds of several runs",
        "--name": "several runs are named TASK-ALGO-sSEED",
        "--watch": "--watch shows a single run; `ahac play RUN --newest` follows one of several",
        "--port": "--port is an option of --watch, which shows a single run",
        "--no-browser": "--no-browser is an option of --watch, which shows a single run",
        "--quiet": "several runs show no progress anyway",
    }.items():
        if name in given:
            raise InputError(f"{reason}; omit {name}")
    return options, rest


def train_many(grid: argparse.Namespace, rest: list[str], read_config: Callable[[list[str]], RunConfig]) -> int:
    """Train all combinations, print a table that compares them, and save their learning curves as a picture.

    Args:
        grid: Algorithms, seeds and number of jobs.
        rest: The other arguments of `ahac train`.
        read_config: Returns the settings of the run that these arguments describe.
    """
    configs: list[RunConfig] = []
    for algo in dict.fromkeys(grid.algo):
        config = read_config([*rest, "--algo", algo])
        seeds = [config.seed] if grid.seeds is None else dict.fromkeys(grid.seeds)
        configs += [replace(config, seed=k, name=f"{config.task_name}-{algo}-s{k}") for k in seeds]

    from ahac.experiments.compare import group_runs, summarize
    from ahac.experiments.launchers.local import default_jobs
    from ahac.experiments.sweep import folder_of
    from ahac.experiments.sweep import sweep as run_sweep

    if grid.jobs is not None and grid.jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {grid.jobs}")
    jobs = grid.jobs or default_jobs(configs)
    sys.stderr.write(f"{len(configs)} runs, {jobs} at a time; the same command continues after Ctrl-C\n")
    with SweepDisplay(configs) as display:
        outcomes = run_sweep(configs, jobs, on_event=display.on_event, on_progress=display.on_progress)
    status = summary(outcomes)
    trained = [str(folder) for config in configs if (folder := folder_of(config)).is_dir()]
    if not any((Path(folder) / "metrics.csv").is_file() for folder in trained):
        return status  # nothing to compare
    runs = group_runs(trained)
    sys.stdout.write("".join(f"{line}\n" for line in lines(summarize(runs, [], []))))
    steps = [run.last("env_steps", 0.0) for group in runs.values() for run in group]
    if min(steps) < 0.9 * max(steps):
        sys.stderr.write("the runs differ in environment steps; `--env-steps N` makes them equally long\n")
    picture = Path(configs[0].out) / f"{configs[0].task_name}-{'-'.join(dict.fromkeys(grid.algo))}.png"
    again = shlex.join(["ahac", "compare", *trained, "--plot", str(picture)])
    try:
        from ahac.experiments.plot import RETURN, plot

        plot(picture, runs, [RETURN])
        sys.stdout.write(f"{picture}\n")
    except InputError as error:
        sys.stderr.write(f"no picture: {error}; then run `{again}`\n")
    return status
