"""Common style of the gradient figures: colors of the estimators, titles, captions, shading of contact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ahac.plots.theme import COLORS, MUTED, plain

if TYPE_CHECKING:
    from ahac.plots.theme import Axes, Figure

__all__ = ["BOUND", "EXACT", "FIRST", "ZEROTH", "about", "caption", "note", "shade", "title", "zero_line"]

FIRST, ZEROTH, BOUND, EXACT = COLORS[0], COLORS[1], COLORS[2], "#333333"
"""Colors of first- and zeroth-order estimates, of bounds, and of exact values."""
DARKEST = 0.35
"""Opacity of a step in which all samples are in contact."""


def title(axes: Axes, text: str) -> None:
    """Set the title of a panel."""
    axes.set_title(plain(text), loc="left", fontweight="bold")


def note(axes: Axes, text: str) -> None:
    """Add a remark to a panel, right-aligned next to its title."""
    axes.set_title(plain(text), loc="right", fontsize=9.0, color=MUTED)


def caption(figure: Figure, text: str) -> None:
    """Set the caption below the figure."""
    figure.supxlabel(plain(text), fontsize=9.0, color=MUTED)


def about(settings: Mapping[str, Any]) -> str:
    """Describe task and policy of a study."""
    policy = settings["policy"]
    if "fresh" in policy:
        return f"{settings['task']}, fresh policy"
    return f"{settings['task']}, policy of {policy['run']} after {policy['env_steps']:,} steps"


def shade(axes: Axes, steps: np.ndarray, contact: np.ndarray) -> None:
    """Shade the steps in which samples are in contact, darker for a larger fraction of samples."""
    half = 0.5 * float(np.diff(steps).min()) if len(steps) > 1 else 0.5
    for step, share in zip(steps, contact, strict=True):
        if share > 0.0:
            opacity = DARKEST * float(share)
            axes.axvspan(step - half, step + half, color="#000000", alpha=opacity, linewidth=0, zorder=0)


def zero_line(axes: Axes, signed: np.ndarray) -> None:
    """Draw a line at zero if the values have both signs."""
    if signed.min() < 0.0 < signed.max():
        axes.axhline(0.0, color="#bbbbbb", linewidth=0.8, zorder=1)
