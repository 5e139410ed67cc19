"""Still pictures without graphics hardware: the triangles of a scene, projected, shaded and sorted by distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ahac.view.geometry import batches
from ahac.view.quaternions import rotate
from ahac.view.scene import Scene
from ahac.view.trajectory import contact_points

__all__ = ["Still", "take_still"]

CELLS = 300
"""Details smaller than this fraction of the scene are merged: meshes can have a million triangles."""
LIGHTEST, DARKEST = 1.0, 0.3
"""Range of brightness that colors are mapped to, so that the shape of a black robot can be seen."""
EDGE_ON = 1e-4
"""Cosine of the angle of view below which a triangle is not drawn."""
AMBIENT = 0.45
"""Brightness of a surface in the shade; 1 in full light."""
LIGHT = (0.3, 0.5, 0.8)
"""Direction to the light: to the right, toward the camera, up."""


@dataclass(frozen=True, eq=False)
class Still:
    """A projection of a scene; the horizontal axis points to the right, the vertical one up [m]."""

    triangles: NDArray[np.float64]
    """[F, 3, 2] corners of the visible triangles, the most distant first."""
    colors: NDArray[np.float64]
    """[F, 4] RGBA."""
    contact_points: NDArray[np.float64]
    """[P, 2] positions of the contact points."""


def take_still(scene: Scene, position: np.ndarray, quaternion: np.ndarray, azimuth: float, elevation: float) -> Still:
    """Project a scene in parallel.

    Args:
        scene: What to draw.
        position: [B, 3] positions of the bodies [m].
        quaternion: [B, 4] orientations of the bodies.
        azimuth: Direction in which the camera looks, about the vertical [rad]; 0 looks along x.
        elevation: Angle by which the camera looks down [rad].
    """
    right = np.array([np.sin(azimuth), -np.cos(azimuth), 0.0])
    ahead = np.array([np.cos(azimuth) * np.cos(elevation), np.sin(azimuth) * np.cos(elevation), -np.sin(elevation)])
    up = np.cross(right, ahead)
    corners, colors = _triangles(scene, position, quaternion)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    facing = normals @ ahead < -EDGE_ON
    corners, colors, normals = corners[facing], colors[facing], normals[facing]
    order = np.argsort(-(corners.mean(axis=1) @ ahead), kind="stable")
    light = LIGHT[0] * right - LIGHT[1] * ahead + LIGHT[2] * up
    brightness = AMBIENT + (1.0 - AMBIENT) * np.clip(normals @ (light / np.linalg.norm(light)), 0.0, 1.0)
    visible = DARKEST + (LIGHTEST - DARKEST) * colors[:, :3]
    shaded = np.concatenate([visible * brightness[:, None], colors[:, 3:]], axis=1)
    axes = np.stack([right, up], axis=1)
    points = contact_points(scene, position, quaternion)
    return Still(corners[order] @ axes, np.clip(shaded[order], 0.0, 1.0), points.astype(np.float64) @ axes)


def _triangles(scene: Scene, position: np.ndarray, quaternion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return corners [F, 3, 3] and colors [F, 4] of all triangles."""
    surfaces: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for batch in batches(scene):
        positions, quaternions = (values[0] for values in batch.poses(position[None], quaternion[None]))
        for k in range(len(batch.body)):
            vertices = positions[k] + rotate(quaternions[k], batch.scale[k] * batch.mesh.vertices)
            surfaces.append((vertices.astype(np.float64), batch.mesh.faces, batch.color[k]))
    if not surfaces:
        return np.zeros((0, 3, 3)), np.zeros((0, 4))
    everything = np.concatenate([vertices for vertices, _, _ in surfaces])
    cell = float(np.ptp(everything, axis=0).max()) / CELLS
    parts = [(_simplified(vertices, faces, cell), color) for vertices, faces, color in surfaces]
    colors = [np.tile(color, (len(corners), 1)) for corners, color in parts]
    return np.concatenate([corners for corners, _ in parts]), np.concatenate(colors).astype(np.float64)


def _simplified(vertices: np.ndarray, faces: np.ndarray, cell: float) -> np.ndarray:
    """Return the corners [F, 3, 3] of a mesh whose vertices in one cell of a grid are merged."""
    keys = np.round(vertices / max(cell, 1e-9)).astype(np.int64)
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    merged = group.reshape(-1)[faces.astype(np.int64)]
    a, b, c = merged.T
    merged = merged[(a != b) & (b != c) & (c != a)]
    _, kept = np.unique(np.sort(merged, axis=1), axis=0, return_index=True)
    return vertices[first][merged[np.sort(kept)]]
