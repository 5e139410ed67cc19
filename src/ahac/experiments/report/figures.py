"""Figures of a report: learning curves, aggregate metrics and performance profiles, as SVG documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from ahac.experiments.plot import AXES, curve
from ahac.experiments.report.data import Group
from ahac.experiments.report.scores import Estimate, Profile
from ahac.plots.theme import COLORS, LINESTYLES, MUTED, new_figure, plain
from ahac.stats.across_tasks import METRICS, interquartile_mean
from ahac.stats.bootstrap import curve_band

if TYPE_CHECKING:
    from ahac.plots.theme import Axes
    from ahac.plots.theme import Figure as Canvas

__all__ = ["MOST_BANDS", "Styles", "aggregate_figure", "column_styles", "curve_figure", "profile_figure"]

WIDTH = 9.0
"""Width of figures [inch]."""
LEGEND_CHARACTERS = 120
"""Number of characters that fit in a row of a legend, with lines and spaces."""
LONGEST_NAME = 40
PATH = re.compile(r' d="[^"]*"')
"""The coordinates of a path in an SVG document."""
BEZIER = re.compile("[CQ]")
"""Commands of Bézier curves in a path."""
DECIMALS = re.compile(r"(\.\d)\d+")
WIDEST_RATIO = 4.0
"""If the longest curve of a figure is longer than this times the shortest, the axis is logarithmic."""
MOST_BANDS = len(COLORS)
"""A figure of more groups has no bands, which would hide each other."""
Styles = Mapping[str, tuple[str, str]]
"""Color and line style of each column, the same in all figures."""


@dataclass
class _Drawing:
    """A figure to draw on, and its SVG document once it is finished."""

    canvas: Canvas
    svg: str = ""


@contextmanager
def _drawing(height: float) -> Iterator[_Drawing]:
    """Yield a figure; after the block, `svg` of what was yielded is its document."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "figure.svg"
        with new_figure([path], WIDTH, height) as canvas:
            drawing = _Drawing(canvas)
            yield drawing
        drawing.svg = _shortened(path.read_text(encoding="utf-8"))


def _shortened(svg: str) -> str:
    """Return an SVG document with shorter paths.

    Coordinates are cut to one decimal, a tenth of a point, from matplotlib's six. Lines (L) after a start (M) or after
    each other need no letter; paths with Bézier curves keep their letters.
    """

    def shorten(path: re.Match[str]) -> str:
        text = " ".join(DECIMALS.sub(r"\1", path[0]).split())
        return f" {text if BEZIER.search(text) else text.replace(' L ', ' ')}"

    return PATH.sub(shorten, svg)


def column_styles(columns: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the color and line style of each column."""
    return {
        column: (COLORS[k % len(COLORS)], LINESTYLES[k // len(COLORS) % len(LINESTYLES)])
        for k, column in enumerate(columns)
    }


def curve_figure(groups: Sequence[Group], styles: Styles) -> str:
    """Return the learning curves of a task's groups: interquartile mean over runs with a 95% bootstrap band."""
    labels = [_label(group) for group in groups]
    with _drawing(3.2 + _legend_height(labels)) as drawing:
        panels: Any = drawing.canvas.subplots(1, len(AXES), sharey=True)
        for axes, axis in zip(panels, AXES, strict=True):
            if _lengths_differ([group.curves[axis][0] for group in groups]):
                axes.set_xscale("log")
            for group, label in zip(groups, labels, strict=True):
                _curve(axes, group, axis, styles[group.column], label, band=len(groups) <= MOST_BANDS)
            _format_curve_axes(axes, axis)
            if not any(len(group.curves[axis][0]) for group in groups):
                _explain_empty(axes, groups)
        if not any(group.has_curve for group in groups):
            panels[0].set_yticks([])
        panels[0].set_ylabel("return in training")
        engine: Any = drawing.canvas.get_layout_engine()
        engine.set(wspace=0.04)  # the last tick of one panel is next to the first one of the other
        _legend_below(drawing.canvas, panels[0])
    return drawing.svg


def _lengths_differ(curves: Sequence[np.ndarray]) -> bool:
    """Return whether some curves would be hard to see next to others that are much longer."""
    ends = [points[-1] for points in curves if len(points)]
    return len(ends) > 1 and max(ends) > WIDEST_RATIO * min(ends) > 0.0


def _label(group: Group) -> str:
    if not group.has_curve:
        return f"{_short(group.column)} (no curve)"
    seeds = len({run.settings["seed"] for run in group.curve_runs})
    return f"{_short(group.column)} ({seeds} seed{'s' * (seeds != 1)})"


def _short(name: str) -> str:
    """Return a name for a legend or an axis, shortened in the middle if it is long: often its end differs."""
    half = LONGEST_NAME // 2 - 1
    return plain(name if len(name) <= LONGEST_NAME else f"{name[:half]}…{name[-half:]}")


def _curve(axes: Axes, group: Group, axis: str, style: tuple[str, str], label: str, band: bool) -> None:
    """Plot the curve of a group; one without a curve on this axis is only in the legend."""
    color, linestyle = style
    logarithmic = axes.get_xscale() == "log"
    x, values = curve(group.curve_runs, axis, logarithmic=True) if logarithmic else group.curves[axis]
    if not len(x):
        axes.plot([], [], linestyle, color=color, label=label)
        return
    x, values = x[2::3], values.reshape(len(values), -1, 3).mean(axis=-1)  # a third of the size, hardly visible
    marker = "o" if x[0] == x[-1] else ""
    axes.plot(x, interquartile_mean([values.T]), linestyle + marker, color=color, linewidth=1.6, label=label)
    if band and len(group.curve_runs) > 1:
        low, high = curve_band(values, np.random.default_rng(0))
        axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)


def _format_curve_axes(axes: Axes, axis: str) -> None:
    from matplotlib.ticker import EngFormatter, StrMethodFormatter

    axes.set_xlabel(AXES[axis])
    if axes.get_xscale() == "linear":
        axes.set_xlim(left=0.0)
    axes.xaxis.set_major_formatter(EngFormatter(sep="") if axis == "env_steps" else StrMethodFormatter("{x:,.8g}"))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.8g}"))


def _explain_empty(axes: Axes, groups: Sequence[Group]) -> None:
    """Say in a panel without curves why it has none, in place of numbers on its axis."""
    all_lack = all(group.without_return for group in groups)
    text = "no group whose runs all have a return yet" if all_lack else "no group whose runs have a range in common"
    axes.text(0.5, 0.5, text, ha="center", va="center", color=MUTED, transform=axes.transAxes)
    axes.set_xticks([])


def aggregate_figure(aggregates: Mapping[str, Mapping[str, Estimate]], styles: Styles) -> str:
    """Return the aggregate metrics of each column as points with intervals, a panel per metric."""
    columns = list(aggregates)
    with _drawing(0.9 + 0.32 * len(columns)) as drawing:
        panels: Any = drawing.canvas.subplots(1, len(METRICS), sharey=True)
        for axes, name in zip(panels, METRICS, strict=True):
            for row, column in enumerate(columns):
                estimate = aggregates[column][name]
                color, _ = styles[column]
                axes.hlines(row, estimate.low, estimate.high, colors=color, linewidth=7.0, alpha=0.35)  # ends are exact
                axes.plot([estimate.value], [row], "|", color=color, markersize=13.0, markeredgewidth=2.5)
            axes.set_title(name, loc="left")
        panels[0].set_yticks(range(len(columns)), map(_short, columns))
        panels[0].set_ylim(len(columns) - 0.5, -0.5)
        drawing.canvas.supxlabel("normalized score", fontsize=9.0, color=MUTED)
    return drawing.svg


def profile_figure(profiles: Mapping[str, Profile], styles: Styles) -> str:
    """Return the performance profile of each column."""
    labels = [_short(column) for column in profiles]
    with _drawing(3.4 + _legend_height(labels)) as drawing:
        axes: Any = drawing.canvas.subplots()
        for (column, profile), label in zip(profiles.items(), labels, strict=True):
            color, linestyle = styles[column]
            axes.plot(
                profile.thresholds, profile.fractions, linestyle, color=color, linewidth=1.6, label=label,
                drawstyle="steps-post",
            )  # fmt: skip
            axes.set_xlim(profile.thresholds[0], profile.thresholds[-1])  # the same for all
            if len(profiles) <= MOST_BANDS:
                axes.fill_between(
                    profile.thresholds, profile.low, profile.high, color=color, alpha=0.15, linewidth=0, step="post"
                )
        axes.set_xlabel("normalized score τ")
        axes.set_ylabel("fraction of runs with score > τ")
        axes.set_ylim(0.0, 1.02)
        _legend_below(drawing.canvas, axes)
    return drawing.svg


def _legend_columns(labels: Sequence[str]) -> int:
    """Return how many labels fit next to each other."""
    return max(1, min(len(labels), LEGEND_CHARACTERS // (max(map(len, labels)) + 7)))


def _legend_height(labels: Sequence[str]) -> float:
    """Return the height of a legend [inch]."""
    return 0.2 * -(-len(labels) // _legend_columns(labels))


def _legend_below(canvas: Canvas, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=_legend_columns(labels), fontsize=9.0)
