"""Curves of groups of runs, as a picture: returns, or whatever the runs' tables have."""

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

__all__ = ["RETURN", "curve", "plot"]

CURVE_POINTS = 300
"""Points of a curve."""
AXES = {"env_steps": "environment steps", "seconds": "seconds of training"}
RETURN = "episode_return"
"""The column that is drawn where no other is asked for; its axis is always linear."""
NAMES = {RETURN: "return in training", "esnr": "ESNR", "growth": "growth of the adjoint"}
"""Of columns that are called otherwise in a picture."""


def plot(path: Path, groups: Mapping[str, Sequence[RunFiles]], columns: Sequence[str] = (RETURN,)) -> None:
    """Write a picture: a row per task and column of metrics.csv, against environment steps and against seconds.

    A line is the mean over the runs of a group, its band goes from the lowest to the highest of them. Both end where
    the shortest run of the group does. A column is drawn of the groups whose runs all have it; with a logarithmic axis
    where it is above zero and spreads over two orders of magnitude.
    """
    rows, looks = _rows(groups, list(dict.fromkeys(columns))), _styles(groups)
    heights = [max(3.8, 0.6 + 0.22 * len(chosen)) for _, _, chosen in rows]  # as high as the legend at least
    with new_figure([path], 11.0, 0.4 + sum(heights)) as figure:
        panels: Any = figure.subplots(len(rows), 2, sharey="row", squeeze=False, height_ratios=heights)
        above = ""
        for (task, column, chosen), pair in zip(rows, panels, strict=True):
            for axes, axis in zip(pair, AXES, strict=True):
                _panel(axes, chosen, axis, column, looks)
            if column != RETURN and _wide(pair[0]):
                pair[0].set_yscale("log")
            pair[0].set_title(plain(task) if task != above else "", loc="left", fontweight="bold")
            pair[0].set_ylabel(NAMES.get(column) or plain(column))
            _legend(pair[1], pair[0])
            above = task
        figure.supxlabel("line: mean over seeds; band: lowest to highest seed", fontsize=9.0, color=MUTED)


def curve(records: Sequence[RunFiles], axis: str, column: str = RETURN) -> tuple[np.ndarray, np.ndarray]:
    """Places [n] on an axis and what each run has there [runs, n].

    That is the mean of its rows since the place before, or the latest where there was none; what is not finite does not
    count. From where all runs have the column to where the first of them ends; nothing where there is no such place.
    """
    known = [
        np.array([(row[axis], row[column]) for row in record.rows if math.isfinite(row.get(column, math.nan))])
        for record in records
    ]
    if any(len(points) == 0 for points in known):
        return np.empty(0), np.empty((len(records), 0))
    for points in known:
        points[:, 0] = np.maximum.accumulate(points[:, 0])  # time may go back by a hair where compilation is taken off
    begin = max(points[0, 0] for points in known)
    end = min(points[-1, 0] for points in known)
    places = np.linspace(begin, end, CURVE_POINTS) if begin <= end else np.empty(0)
    return places, np.array([_means(points, places) for points in known])


def _means(points: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Of what lies (place, value) between one place and the next, at the latter."""
    last = np.searchsorted(points[:, 0], places, side="right")
    first = np.minimum(np.concatenate([last[:1], last[:-1]]), last - 1)
    return np.array([points[i:j, 1].mean() for i, j in zip(first, last, strict=True)])


def _rows(
    groups: Mapping[str, Sequence[RunFiles]], columns: Sequence[str]
) -> list[tuple[str, str, dict[str, Sequence[RunFiles]]]]:
    """Tasks, columns and the groups that have them; a column that no group has is refused. Returns may come late."""
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
        if not any(chosen for _, drawn, chosen in rows if drawn == column):
            known = {name for records in groups.values() for record in records for row in record.rows for name in row}
            there = ", ".join(sorted(known - AXES.keys()))
            raise InputError(f"no group has {column!r} in its metrics.csv; there is {there}")
    return [row for row in rows if row[2]]


def _have_column(records: Sequence[RunFiles], column: str) -> bool:
    """Whether all of these runs have a column that can be drawn."""
    return column not in AXES and all(any(column in row for row in record.rows) for record in records)


def _styles(groups: Mapping[str, Sequence[RunFiles]]) -> dict[str, tuple[str, str]]:
    """Colours and strokes of groups, the same in all rows that have them; tasks begin anew."""
    looks: dict[str, tuple[str, str]] = {}
    seen: Counter[str] = Counter()
    for name, records in groups.items():
        task = records[0].settings["task"]
        k = seen[task]
        looks[name] = COLORS[k % len(COLORS)], LINESTYLES[k // len(COLORS) % len(LINESTYLES)]
        seen[task] += 1
    return looks


def _panel(
    axes: Axes, groups: Mapping[str, Sequence[RunFiles]], axis: str, column: str, looks: Mapping[str, tuple[str, str]]
) -> None:
    """The curves of one task and column."""
    from matplotlib.ticker import EngFormatter, StrMethodFormatter

    faint = 0.15 if len(groups) <= len(COLORS) else 0.06
    for name, records in groups.items():
        (colour, stroke), (places, values) = looks[name], curve(records, axis, column)
        seeds = len({record.settings["seed"] for record in records})
        label = f"{plain(name)} ({seeds} seed{'s' * (seeds != 1)})"
        dot = "o" if len(places) and places[0] == places[-1] else ""
        axes.plot(places, values.mean(axis=0), stroke + dot, color=colour, linewidth=1.6, label=label)
        if len(records) > 1:
            axes.fill_between(places, values.min(axis=0), values.max(axis=0), color=colour, alpha=faint, linewidth=0)
    axes.set_xlabel(AXES[axis])
    axes.set_xlim(left=0.0)
    axes.xaxis.set_major_formatter(EngFormatter(sep="") if axis == "env_steps" else StrMethodFormatter("{x:,.8g}"))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.8g}"))


def _wide(axes: Axes) -> bool:
    """Whether all lines are above zero, and two orders of magnitude from the lowest to the highest point."""
    points = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines()])
    return points.size > 0 and points.min() > 0.0 and points.max() > 100.0 * points.min()


def _legend(axes: Axes, left: Axes) -> None:
    """Beside the row, in the order in which the curves against environment steps end."""
    heights = [
        float(np.asarray(line.get_ydata())[-1]) if len(np.asarray(line.get_ydata())) else -np.inf
        for line in left.get_lines()
    ]
    lines = axes.get_lines()
    order = np.argsort(-np.array(heights), kind="stable")
    axes.legend(handles=[lines[k] for k in order], loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=9.0)
