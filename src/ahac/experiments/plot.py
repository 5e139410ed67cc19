"""Learning curves of groups of runs, of returns or other columns of metrics.csv."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ahac.core.errors import InputError
from ahac.experiments.run_files import RunFiles
from ahac.plots.theme import COLORS, LINESTYLES, MUTED, new_figure, plain

if TYPE_CHECKING:
    from ahac.plots.theme import Axes

__all__ = ["AXES", "RETURN", "curve", "plot"]

CURVE_POINTS = 300
"""Number of points of a curve; divisible by three, since reports draw means of triples."""
AXES = {"env_steps": "environment steps", "seconds": "seconds of training"}
RETURN = "episode_return"
"""Column that is plotted by default; its axis is always linear."""
NAMES = {RETURN: "return in training", "esnr": "ESNR", "growth": "growth of the adjoint"}
"""Axis labels of columns, where they differ from the column name."""


def plot(path: Path, groups: Mapping[str, Sequence[RunFiles]], columns: Sequence[str] = (RETURN,)) -> None:
    """Write a figure with a row per task and column of metrics.csv, against environment steps and training time.

    A line is the mean over the runs of a group; its band spans the lowest to the highest run. Both end where the
    shortest run of the group ends. A column is plotted for the groups whose runs all have it, on a logarithmic axis if
    it is positive and spans two orders of magnitude.
    """
    rows = _rows(groups, list(dict.fromkeys(columns)))
    styles = _styles(groups)
    heights = [max(3.8, 0.6 + 0.3 * len(row_groups)) for _, _, row_groups in rows]  # at least as high as the legend
    with new_figure([path], 11.0, 0.4 + sum(heights)) as figure:
        panels: Any = figure.subplots(len(rows), 2, sharey="row", squeeze=False, height_ratios=heights)
        above = ""
        for (task, column, row_groups), pair in zip(rows, panels, strict=True):
            for axes, axis in zip(pair, AXES, strict=True):
                _panel(axes, row_groups, axis, column, styles)
            if column != RETURN and _wide(pair[0]):
                pair[0].set_yscale("log")
            pair[0].set_title(plain(task) if task != above else "", loc="left", fontweight="bold")
            pair[0].set_ylabel(NAMES.get(column) or plain(column))
            _legend(pair[1], pair[0])
            above = task
        figure.supxlabel("line: mean over seeds; band: lowest to highest seed", fontsize=9.0, color=MUTED)


def curve(
    records: Sequence[RunFiles], axis: str, column: str = RETURN, *, logarithmic: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return x values `[n]` on an axis and the value of each run there `[runs, n]`.

    A value is the mean of the run's finite rows since the previous x or, if there are none, the latest one. The x
    values range from where all runs have the column to where the first run ends, at equal distances or, if logarithmic
    and positive, at equal ratios; n is 0 if that range is empty.
    """
    samples = [
        np.array([(row[axis], row[column]) for row in record.rows if math.isfinite(row.get(column, math.nan))])
        for record in records
    ]
    if any(len(points) == 0 for points in samples):
        return np.empty(0), np.empty((len(records), 0))
    for points in samples:
        # Subtracting compilation time can make the training time decrease slightly.
        points[:, 0] = np.maximum.accumulate(points[:, 0])
    begin = max(points[0, 0] for points in samples)
    end = min(points[-1, 0] for points in samples)
    spaced = np.geomspace if logarithmic and begin > 0.0 else np.linspace
    x = spaced(begin, end, CURVE_POINTS) if begin <= end else np.empty(0)
    return x, np.array([_means(points, x) for points in samples])


def _means(points: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the mean of the points (x, value) between each x and the previous one, or else the latest value."""
    last = np.searchsorted(points[:, 0], x, side="right")
    first = np.minimum(np.concatenate([last[:1], last[:-1]]), last - 1)
    return np.array([points[i:j, 1].mean() for i, j in zip(first, last, strict=True)])


def _rows(
    groups: Mapping[str, Sequence[RunFiles]], columns: Sequence[str]
) -> list[tuple[str, str, dict[str, Sequence[RunFiles]]]]:
    """Return tasks, columns and the groups that have them; raise an InputError for a column that no group has.

    Groups without any return yet are included, since the first episode may end late.
    """
    tasks = dict.fromkeys(records[0].settings["task"] for records in groups.values())
    rows = [
        (
            task,
            column,
            {
                name: records
                for name, records in groups.items()
                if records[0].settings["task"] == task and (column == RETURN or _have_column(records, column))
            },
        )
        for task in tasks
        for column in columns
    ]
    for column in columns:
        if not any(row_groups for _, row_column, row_groups in rows if row_column == column):
            available = {
                name for records in groups.values() for record in records for row in record.rows for name in row
            }
            names = ", ".join(sorted(available - AXES.keys()))
            raise InputError(f"no group has {column!r} in its metrics.csv; available: {names}")
    return [row for row in rows if row[2]]


def _have_column(records: Sequence[RunFiles], column: str) -> bool:
    """Return whether all runs have a column that can be plotted."""
    return column not in AXES and all(any(column in row for row in record.rows) for record in records)


def _styles(groups: Mapping[str, Sequence[RunFiles]]) -> dict[str, tuple[str, str]]:
    """Return colors and line styles of groups, the same in all rows of a task; each task starts at the first color."""
    styles: dict[str, tuple[str, str]] = {}
    counts: Counter[str] = Counter()
    for name, records in groups.items():
        task = records[0].settings["task"]
        k = counts[task]
        styles[name] = COLORS[k % len(COLORS)], LINESTYLES[k // len(COLORS) % len(LINESTYLES)]
        counts[task] += 1
    return styles


def _panel(
    axes: Axes, groups: Mapping[str, Sequence[RunFiles]], axis: str, column: str, styles: Mapping[str, tuple[str, str]]
) -> None:
    """Plot the curves of one task and column."""
    from matplotlib.ticker import EngFormatter, StrMethodFormatter

    alpha = 0.15 if len(groups) <= len(COLORS) else 0.06
    for name, records in groups.items():
        color, linestyle = styles[name]
        x, values = curve(records, axis, column)
        seeds = len({record.settings["seed"] for record in records})
        label = f"{plain(name)} ({seeds} seed{'s' * (seeds != 1)})"
        if not len(x):
            label += f"\n{_why_empty(records, column)}"
        marker = "o" if len(x) and x[0] == x[-1] else ""
        axes.plot(x, values.mean(axis=0), linestyle + marker, color=color, linewidth=1.6, label=label)
        if len(records) > 1:
            axes.fill_between(x, values.min(axis=0), values.max(axis=0), color=color, alpha=alpha, linewidth=0)
    if not any(len(np.asarray(line.get_ydata())) for line in axes.get_lines()):
        reasons = dict.fromkeys(_why_empty(records, column) for records in groups.values())
        axes.text(0.5, 0.5, "\n".join(reasons), ha="center", va="center", color=MUTED, transform=axes.transAxes)
    axes.set_xlabel(AXES[axis])
    axes.set_xlim(left=0.0)
    axes.xaxis.set_major_formatter(EngFormatter(sep="") if axis == "env_steps" else StrMethodFormatter("{x:,.8g}"))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.8g}"))


def _why_empty(records: Sequence[RunFiles], column: str) -> str:
    """Return why a group has no curve."""
    if all(any(math.isfinite(row.get(column, math.nan)) for row in record.rows) for record in records):
        return "its runs do not overlap"
    return "no episode has ended yet: train longer" if column == RETURN else "a run has no finite value"


def _wide(axes: Axes) -> bool:
    """Return whether all lines are positive and span two orders of magnitude."""
    points = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines()])
    return points.size > 0 and points.min() > 0.0 and points.max() > 100.0 * points.min()


def _legend(axes: Axes, left: Axes) -> None:
    """Add a legend next to the row, ordered by the final values of the curves against environment steps."""
    heights = [
        float(np.asarray(line.get_ydata())[-1]) if len(np.asarray(line.get_ydata())) else -np.inf
        for line in left.get_lines()
    ]
    lines = axes.get_lines()
    order = np.argsort(-np.array(heights), kind="stable")
    axes.legend(handles=[lines[k] for k in order], loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=9.0)
