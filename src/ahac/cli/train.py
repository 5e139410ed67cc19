"""`ahac train` and `ahac resume`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from ahac.cli.names import PRESETS, algo_names, check_task, task_names
from ahac.cli.options import add_settings, add_settings_from_source, read_settings
from ahac.cli.parser import HELP, Parser, port_number, whole_number
from ahac.cli.paths import find_run
from ahac.cli.pretrained import add_trust_option
from ahac.cli.train_many import add_grid_options, split_grid, train_many
from ahac.core.errors import InputError

if TYPE_CHECKING:
    from ahac.training.config import RunConfig
    from ahac.training.run import Run

__all__ = ["DISPLAY_OPTIONS", "resume", "train", "train_config"]

DISPLAY_OPTIONS = frozenset({"--watch", "--port", "--no-browser", "--quiet", "--seeds", "--jobs"})
"""Options that are not settings of the run."""
BASIC = (
    "--algo", "--preset", "--num-envs", "--iterations", "--env-steps", "--seed", "--seeds", "--jobs", "--device",
    "--out", "--name", "--watch", "--quiet",
)  # fmt: skip
"""Options of the short help."""
ABOUT = (
    "Train a policy and evaluate it. Ctrl-C stops with a checkpoint; continue with `ahac resume RUN`. With several "
    "algorithms after --algo, or with --seeds, train all combinations and compare them."
)


def train(arguments: list[str]) -> int:
    """Run `ahac train`."""
    grid, rest = (None, arguments) if HELP & set(arguments) else split_grid(arguments)
    if grid is not None:
        return train_many(grid, rest, train_config)
    parser, recipe = _train_parser(arguments)
    options = parser.parse(arguments)
    if not options.watch and (options.port is not None or options.no_browser):
        parser.error("--port and --no-browser are options of the viewer; add --watch")
    return _train(read_settings(recipe, options), options)


def train_config(arguments: Sequence[str]) -> RunConfig:
    """Return the settings of the run that `ahac train` would start with these arguments."""
    parser, recipe = _train_parser(arguments)
    return read_settings(recipe, parser.parse(arguments))


def _train_parser(arguments: Sequence[str]) -> tuple[Parser, RunConfig]:
    """Return the parser and its defaults: the recipe that TASK, --algo and --preset select among the arguments."""
    first = Parser("ahac train", "", "")
    first.add_argument("--algo", default="ahac")
    first.add_argument("--preset", default="default")
    _add_display_options(first)
    options, rest = first.parse_some([word for word in arguments if word not in HELP])
    if not rest or rest[0].startswith("-"):
        if HELP & set(arguments):
            _print_general_help(arguments)
        raise InputError(
            f"the task must come first: ahac train TASK [options]; TASK is one of {', '.join(task_names())}"
        )
    task = rest[0]
    check_task(task)

    from ahac.training.api import configure
    from ahac.training.config import RunConfig

    recipe = configure(task, options.algo, options.preset)
    parser = Parser(
        "ahac train",
        "TASK [options]",
        f"{ABOUT}\n\n"
        f"The defaults below are the recipe of {recipe.algo} on {recipe.task}, preset {recipe.preset}; "
        f"`ahac train TASK --algo ALGO --help` shows those of another.\n\n{_choices()}",
        help_command=f"ahac train {task} --algo {recipe.algo} --help",
        basic=BASIC,
    )
    _add_task(parser)
    _add_display_options(parser)
    add_settings(parser, replace(recipe, algo=RunConfig.algo, preset=RunConfig.preset))
    return parser, recipe


def _print_general_help(arguments: Sequence[str]) -> None:
    """Print the help for any task, and exit; this does not import torch."""
    more = "`ahac train TASK --help-all` lists all options, those of the algorithm included, with the task's defaults"
    parser = Parser("ahac train", "TASK [options]", f"{ABOUT}\n\n{_choices()}", epilog=more, basic=BASIC)
    _add_task(parser)
    _add_display_options(parser)
    of_recipe = {"num_envs": "by task and algorithm", "iterations": "by task and algorithm"}
    add_settings_from_source(parser, "ahac.training.config", "RunConfig", of_recipe)
    parser.parse(arguments)


def _choices() -> str:
    return f"TASK: {', '.join(task_names())}\n--algo: {', '.join(algo_names())}\n--preset: {', '.join(PRESETS)}"


def _add_task(parser: Parser) -> None:
    parser.add_argument("task", metavar="TASK", help="name of the task: `ahac list tasks`")


def _add_display_options(parser: Parser) -> None:
    """Add the options that are not settings of the run."""
    parser.add_argument("--watch", action="store_true", help="show the policy in the browser while it learns")
    parser.add_argument(
        "--port",
        type=port_number,
        metavar="N",
        help="with --watch: port of the viewer (default: the first free one from 8080)",
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="with --watch: print the viewer's address without opening it"
    )
    _add_quiet(parser)
    add_grid_options(parser)


def _add_quiet(parser: Parser) -> None:
    parser.add_argument("--quiet", action="store_true", help="print only the result and warnings, no progress")


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
    _add_quiet(parser)
    add_trust_option(parser)
    options = parser.parse(arguments)
    folder = find_run(options.run)

    from ahac.core.distributed import init_distributed
    from ahac.training.prepare import prepare
    from ahac.training.run import open_run

    run = open_run(folder, init_distributed(), options.device, trust=options.trust)
    run = prepare(run, options.checkpoint, options.iterations, options.env_steps)
    if run.ranks.run_on_rank_zero(lambda: _is_evaluated(run, options.quiet)):
        return 0
    return _run_to_end(run, options.quiet)


def _is_evaluated(run: Run, quiet: bool) -> bool:
    """Say where a run continues; if it is complete and evaluated, print the result and return True."""
    from ahac.experiments.run_files import read_run
    from ahac.training.checkpoint import LAST, CheckpointError, load_checkpoint

    unit, length = run.config.length
    name = "iterations" if unit == "iteration" else "environment steps"
    try:
        last = load_checkpoint(run.path_of(LAST))
        done, iteration = last.count(unit), last.count("iteration")
    except CheckpointError:  # none yet, or it is damaged, which training reports
        return False
    if done < length:
        if not quiet:
            sys.stderr.write(f"{run.folder} continues after iteration {iteration} ({done}/{length} {name})\n")
        return False
    if not quiet:
        option = name.replace("environment", "env").replace(" ", "-")
        sys.stderr.write(f"{run.folder} is complete ({done}/{length} {name}); `--{option} N` makes it longer\n")
    try:
        files = read_run(run.folder)
    except InputError:  # evaluation.json or metrics.csv is damaged
        return False
    saved = files.evaluation
    if saved is None or saved["iteration"] != iteration or saved.get("episodes", 0) < run.config.eval_episodes:
        return False
    result = f"{saved['episodes']} episodes: mean {saved['mean']:.1f}, interquartile mean {files.score}"
    sys.stdout.write(f"{result}\n{run.folder}\n")
    return True


def _check_watch(port: int | None) -> None:
    """Raise an InputError if --watch cannot show the viewer."""
    from ahac.view.server import check_viewer, free_port

    try:
        check_viewer()
    except InputError as error:
        raise InputError("--watch needs the viewer: pip install 'ahac[view]'; or omit --watch") from error
    free_port("127.0.0.1", port)


def _train(config: RunConfig, options: argparse.Namespace) -> int:
    if options.watch:
        _check_watch(options.port)

    from ahac.cli.watch import viewer_process
    from ahac.core.distributed import init_distributed
    from ahac.training.run import create_run

    ranks = init_distributed()
    run = create_run(config, ranks)
    c = run.config
    divided = f", divided among {ranks.size} ranks" if ranks.size > 1 else ""
    if ranks.is_main and not options.quiet:
        sys.stderr.write(f"{c.algo} on {c.task}, {c.num_envs} worlds on {run.device}{divided}, in {run.folder}\n")
        for line in run.task.randomized:
            sys.stderr.write(f"randomized in each episode: {line}\n")
    if not options.watch or not ranks.is_main:
        viewer = nullcontext()
    else:
        sys.stderr.write("the viewer is starting\n")
        viewer = viewer_process(run.folder, options.port, open_browser=not options.no_browser)
    with viewer:
        return _run_to_end(run, options.quiet)


def _run_to_end(run: Run, quiet: bool) -> int:
    """Train to the end, evaluate, and print the result and the run folder."""
    try:
        from ahac.training.trainer import finish

        evaluation = finish(run, display=not quiet)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(f"continue with `ahac resume {run.folder}`") from interrupt
    if not run.ranks.is_main:
        return 0  # only the main rank prints
    if evaluation is None:
        sys.stderr.write(f"stopped; continue with `ahac resume {run.folder}`\n")
        return 130
    sys.stdout.write(f"{evaluation}\n{run.folder}\n")
    if not quiet:
        name = shlex.quote(str(run.folder))
        sys.stderr.write(f"next: `ahac play {name}`, `ahac eval {name} --engine mujoco`, `ahac export {name}`\n")
    return 0
