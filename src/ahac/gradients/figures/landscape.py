"""Figure of the return along a direction, with the slopes of both gradient estimates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ahac.gradients.figures.style import EXACT, FIRST, ZEROTH, about, caption, title
from ahac.gradients.study import Study
from ahac.plots.theme import MUTED, new_figure, plain

__all__ = ["draw"]

ALONG = {"random": "a random direction", "first": "the first-order gradient", "zeroth": "the zeroth-order gradient"}
SHARE = 0.4
"""Fraction of the x range over which slopes are drawn."""


def draw(study: Study, paths: Sequence[Path]) -> None:
    """Draw the landscape with and without noise, and the slopes at its center with wedges of two standard errors."""
    c, places = study.settings, study["places"]
    with new_figure(paths, 7.2, 4.4) as figure:
        axes = figure.subplots()
        axes.plot(places, study["noise_free"], color=MUTED, linewidth=1.0, label="without noise")
        axes.fill_between(places, study["low"], study["high"], color=EXACT, alpha=0.18, linewidth=0)
        axes.plot(
            places, study["mean"], color=EXACT, linewidth=1.8, label=f"mean of {c['samples']:,} worlds with noise"
        )
        low, high = axes.get_ylim()
        middle = float(np.interp(0.0, places, study["mean"]))
        near = places[np.abs(places) <= SHARE * c["reach"]]
        for name, color, label in (("zeroth", ZEROTH, "zeroth order"), ("first", FIRST, "first order")):
            slope = float(study[f"{name}_slope"])
            error = 2.0 * float(study[f"{name}_slope_error"])
            axes.fill_between(
                near,
                middle + (slope - error) * near,
                middle + (slope + error) * near,
                color=color,
                alpha=0.15,
                linewidth=0,
            )
            axes.plot(near, middle + slope * near, color=color, linewidth=2.0, label=f"slope by {label}")
        axes.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
        axes.plot([0.0], [middle], "o", color=EXACT, markersize=5)
        axes.set_xlabel(f"way along {ALONG.get(c['along']) or plain(Path(c['along']).name)} [‖θ‖]")
        axes.set_ylabel(f"{c['horizon']}-step return")
        axes.legend(loc="best", fontsize=9.0)
        title(axes, f"landscape of {c['task']}")
        caption(figure, f"{about(c)}; wedges: two standard errors")
