"""Learning curves of groups of runs, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ahac.plots.theme import COLOURS, QUIET, STROKES, drawing
from ahac.training.records import Record

if TYPE_CHECKING:
    from ahac.plots.theme import Axes

__all__ = ["curve", "plot"]

PLACES = 300
"""Points of a curve."""
AXES = {"env_steps": "environment steps", "seconds": "seconds of training"}


def plot(path: Path, groups: Mapping[str, Sequence[Record]]) -> None:
    """Write a picture: a row per task, the return in training against environment steps and against seconds.

    A line is the mean over the runs of a group, its band goes from the lowest to the highest of them. Both end where
    the shortest run of the group does.
    """
    tasks = list(dict.fromkeys(records[0].settings["task"] for records in groups.values()))
    shares = [{name: records for name, records in groups.items() if records[0].settings["task"] == task}
                      for task in tasks]  # fmt: skip
    heights = [max(3.8, 0.6 + 0.22 * len(chosen)) for chosen in shares]  # as high as the legend at least
    with drawing([path], 11.0, 0.4 + sum(heights)) as figure:
        rows: Any = figure.subplots(len(tasks), 2, sharey="row", squeeze=False, height_ratios=heights)
        for task, chosen, row in zip(tasks, shares, rows, strict=True):
            for axes, axis in zip(row, AXES, strict=True):
                _panel(axes, chosen, axis)
            row[0].set_title(task, loc="left", fontweight="bold")
            row[0].set_ylabel("return in training")
            _legend(row[1], row[0])
        figure.supxlabel("line: mean over seeds; band: lowest to highest seed", fontsize=9.0, color=QUIET)


def curve(records: Sequence[Record], axis: str) -> tuple[np.ndarray, np.ndarray]:
    """Places [n] on an axis and the latest returns of each run there [runs, n].

    From where all runs have a return to where the first of them ends; nothing where there is no such place.
    """
    known = [np.array([(row[axis], row["episode_return"]) for row in record.rows if "episode_return" in row])
             for record in records]  # fmt: skip
    if any(len(points) == 0 for points in known):
        return np.empty(0), np.empty((len(records), 0))
    begin, end = max(points[0, 0] for points in known), min(points[-1, 0] for points in known)
    places = np.linspace(begin, end, PLACES) if begin <= end else np.empty(0)
    latest = [points[np.searchsorted(points[:, 0], places, side="right") - 1, 1] for points in known]
    return places, np.array(latest)


def _panel(axes: Axes, groups: Mapping[str, Sequence[Record]], axis: str) -> None:
    """The curves of one task."""
    from matplotlib.ticker import EngFormatter, StrMethodFormatter

    faint = 0.15 if len(groups) <= len(COLOURS) else 0.06
    for k, (name, records) in enumerate(groups.items()):
        colour, stroke = COLOURS[k % len(COLOURS)], STROKES[k // len(COLOURS) % len(STROKES)]
        places, returns = curve(records, axis)
        label = f"{name} ({len(records)} seed{'s' * (len(records) != 1)})"
        axes.plot(places, returns.mean(axis=0), stroke, color=colour, linewidth=1.6, label=label)
        if len(records) > 1:
            axes.fill_between(places, returns.min(axis=0), returns.max(axis=0), color=colour, alpha=faint, linewidth=0)
    axes.set_xlabel(AXES[axis])
    axes.set_xlim(left=0.0)
    axes.xaxis.set_major_formatter(EngFormatter(sep="") if axis == "env_steps" else StrMethodFormatter("{x:,.8g}"))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.8g}"))


def _legend(axes: Axes, left: Axes) -> None:
    """Beside the row, in the order in which the curves against environment steps end."""
    heights = [float(np.asarray(line.get_ydata())[-1]) if len(np.asarray(line.get_ydata())) else -np.inf
               for line in left.get_lines()]  # fmt: skip
    lines = axes.get_lines()
    order = np.argsort(-np.array(heights), kind="stable")
    axes.legend(handles=[lines[k] for k in order], loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=9.0)
