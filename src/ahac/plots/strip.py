"""Pictures of a motion side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ahac.plots.theme import MUTED, new_figure, plain

__all__ = ["plot_strip"]

WIDTH = 7.5
"""Width of a strip [inches]."""
TALLEST = 2.2
"""Maximum height of a strip [inches]."""
GAP = 1.12
"""Distance between the centers of two pictures, in units of the widest one."""

Picture = tuple[np.ndarray, np.ndarray]
"""Triangles [F, 3, 2], the most distant first; their colors [F, 4]."""


def plot_strip(path: Path, pictures: Mapping[str, Picture], ground: float | None = None) -> None:
    """Draw pictures of one robot from left to right, each with its name below.

    Args:
        path: Image to write, .png or .svg.
        pictures: Pictures by name; all have the same scale [m].
        ground: Height of a line that stands for the ground [m], or None.
    """
    from matplotlib.collections import PolyCollection

    corners = [triangles.reshape(-1, 2) for triangles, _ in pictures.values()]
    spacing = GAP * max(float(np.ptp(points[:, 0])) for points in corners)
    heights = [*(float(limit) for points in corners for limit in (points[:, 1].min(), points[:, 1].max()))]
    low, high = (limit(heights + ([] if ground is None else [ground])) for limit in (min, max))
    margin = 0.06 * (high - low)
    width, height = len(pictures) * spacing, high - low + 4.0 * margin
    with new_figure([path], WIDTH, min(WIDTH * height / width, TALLEST)) as figure:
        axes = figure.add_subplot()
        if ground is not None:
            axes.axhline(ground, color=MUTED, linewidth=1.0, zorder=0)
        for k, (name, (triangles, colors)) in enumerate(pictures.items()):
            center = 0.5 * (triangles[..., 0].min() + triangles[..., 0].max())
            shifted = triangles + np.array([k * spacing - center, 0.0])
            # Edges in the color of the face hide the gaps between neighboring triangles.
            axes.add_collection(PolyCollection(list(shifted), facecolors=colors, edgecolors=colors, linewidths=0.2))
            axes.text(k * spacing, low - 1.2 * margin, plain(name), ha="center", va="top", color=MUTED)
        axes.set_xlim(-0.5 * spacing, width - 0.5 * spacing)
        axes.set_ylim(low - 3.0 * margin, high + margin)
        axes.set_aspect("equal")
        axes.axis("off")
