"""Pictures of a robot with its contact points."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ahac.plots.theme import COLORS, new_figure, plain

__all__ = ["plot_robot"]

HEIGHT = 4.5
"""Height of a view [inches]."""
NARROWEST, WIDEST = 0.6, 1.8
"""Bounds on width / height of a view."""

View = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Triangles [F, 3, 2], the most distant first; their colors [F, 4]; contact points [P, 2]."""


def plot_robot(path: Path, title: str, views: Mapping[str, View]) -> None:
    """Draw views of a robot side by side, and mark its contact points, hidden ones included."""
    from matplotlib.collections import PolyCollection

    ratios = [_aspect(np.concatenate([triangles.reshape(-1, 2), points])) for triangles, _, points in views.values()]
    with new_figure([path], HEIGHT * sum(ratios), HEIGHT + 0.5) as figure:
        panels = figure.add_gridspec(1, len(views), width_ratios=ratios)
        for k, (name, (triangles, colors, points)) in enumerate(views.items()):
            axes = figure.add_subplot(panels[0, k])
            # Edges in the color of the face hide the gaps between neighboring triangles.
            axes.add_collection(PolyCollection(list(triangles), facecolors=colors, edgecolors=colors, linewidths=0.2))
            axes.scatter(*points.T, s=14, color=COLORS[1], edgecolors="white", linewidths=0.4, zorder=3)
            axes.set_aspect("equal", adjustable="datalim")
            axes.autoscale_view()
            axes.set_title(name)
            axes.set_xlabel("[m]")
        figure.suptitle(plain(title))


def _aspect(points: np.ndarray) -> float:
    """Return width / height of a view, within bounds."""
    if not len(points):
        return 1.0
    width, height = np.ptp(points, axis=0)
    return float(np.clip(width / max(height, 1e-9), NARROWEST, WIDEST))
