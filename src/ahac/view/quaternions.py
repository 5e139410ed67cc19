"""Quaternion math on numpy arrays; quaternions are (w, x, y, z) along the last axis."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["align_z", "from_matrix", "multiply", "rotate"]


def rotate(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Rotate vectors [..., 3] by unit quaternions [..., 4]."""
    w, axis = quaternion[..., :1], quaternion[..., 1:]
    twice = 2.0 * np.cross(axis, vector)
    return vector + w * twice + np.cross(axis, twice)


def multiply(a: np.ndarray, b: np.ndarray) -> NDArray[np.float32]:
    """Return the Hamilton product a b, the rotation by b followed by a, as float32 [..., 4]."""
    aw, ax, ay, az = np.moveaxis(np.asarray(a), -1, 0)
    bw, bx, by, bz = np.moveaxis(np.asarray(b), -1, 0)
    parts = [
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    ]
    return np.stack(parts, axis=-1).astype(np.float32)


def align_z(direction: np.ndarray) -> NDArray[np.float32]:
    """Return quaternions [..., 4] that rotate the z axis onto directions [..., 3] of any length."""
    length = np.linalg.norm(direction, axis=-1, keepdims=True)
    x, y, z = np.moveaxis(direction / np.maximum(length, 1e-9), -1, 0)
    # q = (1 + z·d, z × d), normalized; for d = -z, any horizontal rotation axis works.
    down = z < -0.999999
    parts = [np.where(down, 0.0, 1.0 + z), np.where(down, 1.0, -y), np.where(down, 0.0, x), np.zeros_like(x)]
    quaternion = np.stack(parts, axis=-1)
    return (quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)).astype(np.float32)


def from_matrix(rotation: np.ndarray) -> np.ndarray:
    """Return unit quaternions [..., 4] of rotation matrices [..., 3, 3].

    The rows of 4 q qᵀ are linear in the matrix; the row with the largest diagonal entry, normalized, is q.
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
    row = np.take_along_axis(outer, best[..., None, None], axis=-2)[..., 0, :]
    return row / np.linalg.norm(row, axis=-1, keepdims=True)
