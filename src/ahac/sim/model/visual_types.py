"""Shapes of a model, for rendering only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

__all__ = ["Mesh", "VisualGeom", "VisualKind"]


@dataclass(frozen=True, eq=False)
class Mesh:
    """A triangle mesh, for rendering only."""

    vertices: np.ndarray
    """[V, 3] float32, in the geom's frame [m]."""
    faces: np.ndarray
    """[F, 3] int32, vertex indices of each triangle."""


VisualKind = Literal["sphere", "capsule", "box", "cylinder", "ellipsoid", "mesh"]


@dataclass(frozen=True, kw_only=True)
class VisualGeom:
    """A shape of a body, for rendering only."""

    geom: str
    kind: VisualKind
    size: tuple[float, float, float]
    """Half sizes [m], by MuJoCo's convention: (radius, 0, 0), (radius, half length, 0) along z, or three half axes."""
    body: str
    position: tuple[float, float, float]
    """Position in the body's frame [m]."""
    quaternion: tuple[float, float, float, float]
    """Orientation (w, x, y, z) in the body's frame."""
    color: tuple[float, float, float, float]
    """Red, green, blue and opacity, each in [0, 1]."""
    mesh: Mesh | None = None
