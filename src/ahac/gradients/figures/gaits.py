"""Figure of return and gait period against the training horizon: the paper's fig:ant_gaits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ahac.gradients.figures.style import EXACT, FIRST, note, title
from ahac.gradients.study import Study
from ahac.plots.theme import COLORS, new_figure

if TYPE_CHECKING:
    from ahac.plots.theme import Axes

__all__ = ["draw"]


def draw(study: Study, paths: Sequence[Path]) -> None:
    """Draw a dot per run, a line through the mean of each horizon, and a band from the lowest to the highest seed."""
    horizons = np.unique(study["horizon"])
    with new_figure(paths, 9.0, 3.8) as figure:
        score, period = figure.subplots(1, 2)
        _means(score, study, "score", FIRST)
        _means(period, study, "period", COLORS[2])
        period.plot(horizons, horizons, "--", color=EXACT, linewidth=1.0, label="period = horizon")
        period.legend(loc="best", fontsize=9.0)
        for axes in (score, period):
            axes.set_xlabel("horizon H of training [steps]")
        score.set_ylabel("return in evaluation")
        period.set_ylabel("gait period [steps]")
        title(score, f"SHAC on {study.settings['task']}")
        title(period, "gait")
        note(period, f"{study.settings['runs']} runs")


def _means(axes: Axes, study: Study, name: str, color: str) -> None:
    finite = np.isfinite(study[name])
    horizon, values = study["horizon"][finite], study[name][finite]
    horizons = np.unique(horizon)
    groups = [values[horizon == h] for h in horizons]
    axes.plot(horizon, values, "o", color=color, alpha=0.4, markersize=4)
    axes.plot(horizons, [group.mean() for group in groups], color=color, linewidth=1.8)
    axes.fill_between(
        horizons,
        [group.min() for group in groups],
        [group.max() for group in groups],
        color=color,
        alpha=0.15,
        linewidth=0,
    )
