"""Layout of several worlds side by side: one track per world, which moves under its robot like a treadmill.

Each world is shifted by its track's offset and by the position of its camera anchor. Its checkered ground moves with
it, modulo whole tiles, so a patch of fixed size looks infinite and the robot's motion over it stays correct.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ahac.sim.model.types import Plane
from ahac.view.camera import follow
from ahac.view.quaternions import align_z, rotate
from ahac.view.shapes import Triangles

__all__ = ["TELEPORT_DISTANCE", "TrackLayout", "checker"]

LENGTH = 40
"""Length of a track to each side of the robot, in tiles."""

FOLLOW_GAIN = 0.2
"""Fraction of the distance to a robot that the live camera covers per frame."""

TELEPORT_DISTANCE = 3.0
"""The camera jumps with a robot that moves farther than this between frames, as after a reset, in units of reach."""


@dataclass(frozen=True)
class TrackLayout:
    """Positions of the worlds in the picture."""

    count: int
    """Number of worlds N."""
    reach: float
    """Radius of the robot [m]."""

    @property
    def tile(self) -> float:
        """Edge length of the ground tiles [m]: a power of two that scales with the robot."""
        return float(2.0 ** np.round(np.log2(0.6 * self.reach)))

    @property
    def spacing(self) -> float:
        """Distance between neighboring tracks [m], a multiple of the tile size."""
        return self.tile * int(np.ceil(2.6 * self.reach / self.tile))

    @property
    def half_tiles(self) -> tuple[int, int]:
        """Half the length and half the width of a track's ground, in tiles."""
        alone = self.count == 1
        return LENGTH, LENGTH if alone else max(1, round(self.spacing / self.tile - 1) // 2)

    def offsets(self) -> np.ndarray:
        """Return the centers of the tracks [N, 3]; track 0 is nearest to a camera that looks along y."""
        middle = (self.count - 1) / 2.0
        return np.array([(0.0, (k - middle) * self.spacing, 0.0) for k in range(self.count)], dtype=np.float32)

    def smoothed_anchor(self, anchor: np.ndarray, root: np.ndarray) -> np.ndarray:
        """Return the next camera anchors [N, 3] for robots at `root` [N, 3]; the camera does not follow vertically."""
        target = root * np.array([1.0, 1.0, 0.0], dtype=np.float32)
        return follow(anchor, target, FOLLOW_GAIN, TELEPORT_DISTANCE * self.reach)

    def ground(self, plane: Plane, anchor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where each track's ground is drawn [N, 3], and the quaternion they share."""
        quaternion = align_z(np.array(plane.normal))
        along, across = (rotate(quaternion, np.eye(3)[k]) for k in (0, 1))
        u = np.floor(anchor @ along / self.tile)
        v = np.floor(anchor @ across / self.tile)
        # A checkerboard is unchanged by a shift of one tile along and one across, so only u + v must be even.
        u = 2.0 * np.floor((u + v) / 2.0) - v
        on_plane = np.multiply(plane.normal, plane.offset) + self.tile * (np.outer(u, along) + np.outer(v, across))
        return (on_plane - anchor + self.offsets()).astype(np.float32), quaternion


def checker(half_length: int, half_width: int, tile: float) -> tuple[Triangles, Triangles]:
    """Return the light and the dark tiles of a checkerboard around the origin, facing up."""
    across, along = np.mgrid[-half_width:half_width, -half_length:half_length]
    meshes = []
    for parity in (0, 1):
        mask = (along + across) % 2 == parity
        corner = np.stack([along[mask], across[mask], np.zeros(mask.sum())], axis=-1)
        square = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)])
        vertices = (tile * (corner[:, None] + square)).reshape(-1, 3)
        faces = 4 * np.arange(len(corner))[:, None, None] + np.array([(0, 1, 2), (0, 2, 3)])
        meshes.append(Triangles(vertices.astype(np.float32), faces.reshape(-1, 3).astype(np.uint32)))
    return meshes[0], meshes[1]
