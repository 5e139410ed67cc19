"""Worlds side by side, each on a lane of its own that runs under it like a treadmill while the camera follows.

What is drawn of a world is shifted by its lane and by where its robot is; its checkered ground is shifted by the same,
less whole tiles, so that a patch of fixed size never ends and the robot's way over it stays true.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ahac.sim.model.types import Plane
from ahac.view.geometry import align_z
from ahac.view.quaternions import rotate
from ahac.view.shapes import Triangles

__all__ = ["TrackLayout", "checker"]

LENGTH = 40
"""Of a lane, in tiles to each side of the robot."""

FOLLOW_RATE = 0.2
"""Share of the way to a robot that the camera takes per frame ..."""

TELEPORT_DISTANCE = 3.0
"""... unless the robot leapt this many reaches, as in a reset."""


@dataclass(frozen=True)
class TrackLayout:
    """Where worlds are drawn."""

    count: int
    reach: float
    """Of the robot [m]."""

    @property
    def tile(self) -> float:
        """Edge of the ground's tiles [m]: 0.25, 0.5, 1, 2, ... by the robot's size."""
        return float(2.0 ** np.round(np.log2(0.6 * self.reach)))

    @property
    def spacing(self) -> float:
        """From lane to lane [m], some whole tiles."""
        return self.tile * int(np.ceil(2.6 * self.reach / self.tile))

    @property
    def half_tiles(self) -> tuple[int, int]:
        """Half length and half width of a lane's ground, in tiles."""
        alone = self.count == 1
        return LENGTH, LENGTH if alone else max(1, round(self.spacing / self.tile - 1) // 2)

    def offsets(self) -> np.ndarray:
        """[N, 3] of the lanes' middles; the first is the nearest to a camera that looks along y."""
        middle = (self.count - 1) / 2.0
        return np.array([(0.0, (k - middle) * self.spacing, 0.0) for k in range(self.count)], dtype=np.float32)

    def smoothed_anchor(self, anchor: np.ndarray, root: np.ndarray) -> np.ndarray:
        """[N, 3] what cameras at `anchor` look at next, for robots at `root`: up and down they do not follow."""
        goal = root * np.array([1.0, 1.0, 0.0], dtype=np.float32)
        leapt = np.linalg.norm(goal - anchor, axis=-1, keepdims=True) > TELEPORT_DISTANCE * self.reach
        return np.where(leapt, goal, anchor + FOLLOW_RATE * (goal - anchor)).astype(np.float32)

    def ground(self, plane: Plane, anchor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[N, 3] where the lanes' grounds are drawn, and their common quaternion."""
        quaternion = align_z(np.array(plane.normal))
        along, across = (rotate(quaternion, np.eye(3)[k]) for k in (0, 1))
        u = np.floor(anchor @ along / self.tile)
        v = np.floor(anchor @ across / self.tile)
        # A checkerboard looks the same after a step of one tile each way: across, single tiles are enough.
        u = 2.0 * np.floor((u + v) / 2.0) - v
        on_plane = np.multiply(plane.normal, plane.offset) + self.tile * (np.outer(u, along) + np.outer(v, across))
        return (on_plane - anchor + self.offsets()).astype(np.float32), quaternion


def checker(half_length: int, half_width: int, tile: float) -> tuple[Triangles, Triangles]:
    """The tiles of either colour of a ground around the origin, facing up."""
    across, along = np.mgrid[-half_width:half_width, -half_length:half_length]
    sides = []
    for parity in (0, 1):
        chosen = (along + across) % 2 == parity
        corner = np.stack([along[chosen], across[chosen], np.zeros(chosen.sum())], axis=-1)
        square = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)])
        vertices = (tile * (corner[:, None] + square)).reshape(-1, 3)
        faces = 4 * np.arange(len(corner))[:, None, None] + np.array([(0, 1, 2), (0, 2, 3)])
        sides.append(Triangles(vertices.astype(np.float32), faces.reshape(-1, 3).astype(np.uint32)))
    return sides[0], sides[1]
