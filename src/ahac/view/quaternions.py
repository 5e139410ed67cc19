"""Rotations as arrays: quaternions are (w, x, y, z), the last axis holds the numbers."""

from __future__ import annotations

import numpy as np

__all__ = ["from_matrix", "rotate"]


def from_matrix(rotation: np.ndarray) -> np.ndarray:
    """[..., 4] of rotation matrices [..., 3, 3].

    Row k of 4 q qᵀ is found without a root; the row with the largest diagonal, normalised, is q.
    """
    r = rotation
    xx = r[..., 0, 0]
    yy = r[..., 1, 1]
    zz = r[..., 2, 2]
    wx = r[..., 2, 1] - r[..., 1, 2]
    wy = r[..., 0, 2] - r[..., 2, 0]
    wz = r[..., 1, 0] - r[..., 0, 1]
    xy = r[..., 0, 1] + r[..., 1, 0]
    xz = r[..., 0, 2] + r[..., 2, 0]
    yz = r[..., 1, 2] + r[..., 2, 1]
    rows = [
        [1 + xx + yy + zz, wx, wy, wz],
        [wx, 1 + xx - yy - zz, xy, xz],
        [wy, xy, 1 - xx + yy - zz, yz],
        [wz, xz, yz, 1 - xx - yy + zz],
    ]
    outer = np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
    best = np.argmax(np.diagonal(outer, axis1=-2, axis2=-1), axis=-1)
    found = np.take_along_axis(outer, best[..., None, None], axis=-2)[..., 0, :]
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def rotate(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """[..., 3] vectors turned by quaternions [..., 4]."""
    w, axis = quaternion[..., :1], quaternion[..., 1:]
    twice = 2.0 * np.cross(axis, vector)
    return vector + w * twice + np.cross(axis, twice)
