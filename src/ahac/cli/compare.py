"""`ahac compare`: a table of groups of runs."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ahac.cli.parser import Parser, number
from ahac.cli.paths import find_run_or_archive
from ahac.core.table import table_lines
from ahac.core.text import printable

if TYPE_CHECKING:
    from ahac.experiments.compare import Comparison

__all__ = ["compare"]

ABOUT = (
    "Compare groups of runs, one table per task. Runs whose folder names differ only in a seed at the end form a "
    "group; other runs are grouped by task, algorithm and preset. Runs in different parent folders are never "
    "grouped. Runs with damaged files are skipped with a warning.\n\n"
    "Columns: `seconds` is training time without kernel compilation, which is listed under `compile`. `evaluation` is "
    "the interquartile mean over runs of the mean returns in evaluation.json, with its 95 % bootstrap interval. "
    '`return at` is the training return after the given steps or seconds; "-" if a run of the group did not get that '
    "far."
)
HEADER = ("group", "seeds", "env steps", "seconds", "compile", "evaluation", "interval")


def compare(arguments: list[str]) -> int:
    """Run `ahac compare`."""
    parser = Parser("ahac compare", "RUN [RUN ...] [options]", ABOUT)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folder, folder of run folders, or archive of runs")
    parser.add_argument(
        "--at-steps",
        type=number,
        nargs="+",
        default=[],
        metavar="N",
        help="environment steps at which to compare returns, one column each (default: the end of the task's shortest "
        "run)",
    )
    parser.add_argument(
        "--at-seconds", type=number, nargs="+", default=[], metavar="S", help="the same for seconds of training"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write the table as CSV, in full precision")
    parser.add_argument(
        "--runs-csv",
        type=Path,
        metavar="FILE",
        help="write a CSV with one row per run: length, horizons, critic epochs, evaluation, and returns at the same "
        "steps and seconds",
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="plot learning curves, .png or .svg: mean over seeds, with a band from lowest to highest; needs "
        "`pip install 'ahac[plot]'`",
    )
    parser.add_argument(
        "--curves",
        nargs="+",
        metavar="COLUMN",
        help="columns of metrics.csv to plot, one panel each: horizon, stiffness, growth, esnr, ... (default: "
        "episode_return)",
    )
    options = parser.parse(arguments)
    if options.curves is not None and options.plot is None:
        parser.error("--curves selects what to plot; add --plot FILE")
    folders = [find_run_or_archive(name) for name in options.runs]

    from ahac.experiments.compare import group_runs, summarize
    from ahac.experiments.comparison_files import write_groups, write_runs
    from ahac.experiments.plot import RETURN, plot

    runs = group_runs(folders)
    groups = summarize(runs, options.at_steps, options.at_seconds)
    if options.plot is not None:
        plot(options.plot, runs, options.curves or [RETURN])
    if options.csv is not None:
        write_groups(options.csv, groups)
    if options.runs_csv is not None:
        write_runs(options.runs_csv, runs, options.at_steps, options.at_seconds)
    sys.stdout.write("".join(f"{line}\n" for line in lines(groups)))
    return 0


def lines(groups: list[Comparison]) -> list[str]:
    """Return the tables of all tasks, separated by empty lines."""
    text = []
    for task in dict.fromkeys(group.task for group in groups):
        of_task = [group for group in groups if group.task == task]
        points = [f"at {_number(x)} steps" for x in of_task[0].at_steps]
        points += [f"at {_number(x)} s" for x in of_task[0].at_seconds]
        points[0] = f"return {points[0]}"
        text += [""] if text else []
        text += table_lines((*HEADER, *points), map(_cells, of_task))
    return text


def _cells(group: Comparison) -> tuple[str, ...]:
    part = "" if group.evaluated in (0, group.runs) else f" ({group.evaluated} of {group.runs})"
    interval = "-" if math.isnan(group.low) else f"[{_number(group.low)}, {_number(group.high)}]"
    return (
        printable(group.group),
        str(len(group.seeds)),
        _number(group.env_steps),
        _number(group.seconds),
        _number(group.compile_seconds),
        _number(group.score) + part,
        interval,
        *map(_number, group.at_steps.values()),
        *map(_number, group.at_seconds.values()),
    )


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1e5 else f"{value:,.1f}"
