"""Return and gait period against the horizon of training: the paper's fig:ant_gaits."""

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
    """A dot per run, lines through the means of each horizon, bands from the lowest to the highest seed."""
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


def _means(axes: Axes, study: Study, name: str, colour: str) -> None:
    known = np.isfinite(study[name])
    horizon, values = study["horizon"][known], study[name][known]
    places = np.unique(horizon)
    groups = [values[horizon == place] for place in places]
    axes.plot(horizon, values, "o", color=colour, alpha=0.4, markersize=4)
    axes.plot(places, [group.mean() for group in groups], color=colour, linewidth=1.8)
    axes.fill_between(
        places,
        [group.min() for group in groups],
        [group.max() for group in groups],
        color=colour,
        alpha=0.15,
        linewidth=0,
    )
