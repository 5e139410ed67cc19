"""`ahac compare`: groups of runs as a table."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ahac.core.text import printable

if TYPE_CHECKING:
    from ahac.experiments.compare import Comparison

__all__ = ["compare"]

ABOUT = """Runs side by side. Runs whose folders are named alike but for a seed at the end are one group; others are
grouped by task, algorithm and preset. "seconds" of training do not include those spent compiling kernels, which are
under "compile". "evaluation" is the interquartile mean over runs of the mean returns in evaluation.json, with its 95 %
bootstrap interval; "return at" the one in training at equal cost, "-" where a run of the group did not come so far.
Runs with damaged files are left out with a warning."""
HEAD = ("group", "seeds", "env steps", "seconds", "compile", "evaluation", "interval")


def compare(arguments: list[str]) -> int:
    """compare groups of runs"""
    from ahac.experiments.compare import group_runs, summarize
    from ahac.experiments.comparison_files import write_groups, write_runs
    from ahac.experiments.plot import RETURN, plot

    parser = argparse.ArgumentParser(prog="ahac compare", description=ABOUT)
    parser.add_argument("runs", nargs="+", metavar="RUN_OR_FOLDER", help="a run, or a folder of runs")
    parser.add_argument(
        "--at-steps",
        type=float,
        nargs="+",
        default=[],
        metavar="N",
        help="environment steps at which "
        "returns are compared, a column each; default: the end of the task's shortest run",
    )
    parser.add_argument(
        "--at-seconds", type=float, nargs="+", default=[], metavar="S", help="the same for seconds of training"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table there, too, with all digits")
    parser.add_argument(
        "--runs",
        type=Path,
        metavar="FILE",
        dest="each",
        help="write a CSV with a row per run there: "
        "its length, horizons, critic epochs, evaluation, and returns at these places",
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="draw learning curves there, .png or .svg: mean over "
        "seeds, with a band from the lowest to the highest; needs the extra `plot`",
    )
    parser.add_argument(
        "--curves",
        nargs="+",
        metavar="COLUMN",
        help="what of metrics.csv --plot "
        "draws, a row of the picture each, of the groups that have it: horizon, stiffness, growth, "
        f"esnr, ... (default: {RETURN})",
    )
    options = parser.parse_args(arguments)
    if options.curves is not None and options.plot is None:
        parser.error("--curves says what to draw: add --plot FILE")
    runs = group_runs(options.runs)
    groups = summarize(runs, options.at_steps, options.at_seconds)
    if options.plot is not None:
        plot(options.plot, runs, options.curves or [RETURN])
    if options.csv is not None:
        write_groups(options.csv, groups)
    if options.each is not None:
        write_runs(options.each, runs, options.at_steps, options.at_seconds)
    for line in lines(groups):
        sys.stdout.write(f"{line}\n")
    return 0


def lines(groups: list[Comparison]) -> list[str]:
    """The table of one task after the other, columns as wide as they have to be."""
    found = []
    for task in dict.fromkeys(group.task for group in groups):
        chosen = [group for group in groups if group.task == task]
        at = [f"at {_number(x)} steps" for x in chosen[0].at_steps] + [
            f"at {_number(x)} s" for x in chosen[0].at_seconds
        ]
        at[0] = f"return {at[0]}"
        found += [""] if found else []
        table = [(*HEAD, *at), *(_cells(group) for group in chosen)]
        widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
        found += [
            "  ".join(
                cell.ljust(width) if k == 0 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in table
        ]
    return found


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
