"""Pictures of a robot with its contact points."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ahac.plots.theme import COLORS, new_figure, plain

__all__ = ["plot_robot"]

PANEL = 4.5
"""Width of a view [inches]."""

View = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Triangles [F, 3, 2], the most distant first; their colors [F, 4]; contact points [P, 2]."""


def plot_robot(path: Path, title: str, views: Mapping[str, View]) -> None:
    """Draw views of a robot side by side, and mark its contact points, hidden ones included."""
    from matplotlib.collections import PolyCollection

    with new_figure([path], PANEL * len(views), PANEL + 0.5) as figure:
        for k, (name, (triangles, colors, points)) in enumerate(views.items(), 1):
            axes = figure.add_subplot(1, len(views), k)
            # Edges in the color of the face hide the gaps between neighboring triangles.
            axes.add_collection(PolyCollection(list(triangles), facecolors=colors, edgecolors=colors, linewidths=0.2))
            axes.scatter(*points.T, s=14, color=COLORS[1], edgecolors="white", linewidths=0.4, zorder=3)
            axes.set_aspect("equal")
            axes.autoscale_view()
            axes.set_title(name)
            axes.set_xlabel("[m]")
        figure.suptitle(plain(title))
