"""What the pictures of gradients have in common: colours of the estimators, letters, shades of contact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ahac.plots.theme import COLORS, MUTED, plain

if TYPE_CHECKING:
    from ahac.plots.theme import Axes, Figure

__all__ = ["BOUND", "EXACT", "FIRST", "ZEROTH", "about", "caption", "note", "shade", "title", "zero_line"]

FIRST, ZEROTH, BOUND, EXACT = COLORS[0], COLORS[1], COLORS[2], "#333333"
"""Of first- and zeroth-order estimates, of what bounds them, and of what is known exactly."""
DARKEST = 0.35
"""Opacity of a step in which every sample touches something."""


def title(axes: Axes, text: str) -> None:
    """What a panel shows."""
    axes.set_title(plain(text), loc="left", fontweight="bold")


def note(axes: Axes, text: str) -> None:
    """A remark below a panel's title, at the right."""
    axes.set_title(plain(text), loc="right", fontsize=9.0, color=MUTED)


def caption(figure: Figure, text: str) -> None:
    """What the whole picture is of, below it."""
    figure.supxlabel(plain(text), fontsize=9.0, color=MUTED)


def about(settings: Mapping[str, Any]) -> str:
    """Which task and policy a study is of."""
    policy = settings["policy"]
    if "fresh" in policy:
        return f"{settings['task']}, fresh policy"
    return f"{settings['task']}, policy of {policy['run']} after {policy['env_steps']:,} steps"


def shade(axes: Axes, places: np.ndarray, share: np.ndarray) -> None:
    """Darken the steps in which samples touch something, by their share."""
    half = 0.5 * float(np.diff(places).min()) if len(places) > 1 else 0.5
    for place, part in zip(places, share, strict=True):
        if part > 0.0:
            axes.axvspan(
                place - half, place + half, color="#000000", alpha=DARKEST * float(part), linewidth=0, zorder=0
            )


def zero_line(axes: Axes, signed: np.ndarray) -> None:
    """A line at zero, where values have both signs."""
    if signed.min() < 0.0 < signed.max():
        axes.axhline(0.0, color="#bbbbbb", linewidth=0.8, zorder=1)
