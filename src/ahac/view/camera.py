"""Camera smoothing: a causal filter for the live viewer and the HTML player, a centered one for videos."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["follow", "follow_path", "smooth_path"]

FOLLOW_RATE = 6.0
"""Rate at which the HTML player's camera approaches the robot [1/s]."""


def follow(anchor: np.ndarray, target: np.ndarray, gain: float, teleport_distance: float) -> NDArray[np.float32]:
    """Move camera anchors [N, D] toward targets [N, D] by the fraction `gain`; jump to targets that teleported."""
    teleported = np.linalg.norm(target - anchor, axis=-1, keepdims=True) > teleport_distance
    return np.where(teleported, target, anchor + gain * (target - anchor)).astype(np.float32)


def follow_path(path: np.ndarray, dt: float, teleport_distance: float) -> NDArray[np.float32]:
    """Return the camera anchors [T, N, D] that `follow` gives along a path [T, N, D] sampled every `dt` seconds."""
    gain = 1.0 - math.exp(-FOLLOW_RATE * dt)
    targets = path.astype(np.float64)
    anchors = [path[0].astype(np.float32)]
    for target in targets[1:]:
        anchors.append(follow(anchors[-1].astype(np.float64), target, gain, teleport_distance))
    return np.stack(anchors)


def smooth_path(path: np.ndarray, deviation: float, teleport_distance: float) -> np.ndarray:
    """Smooth a path [T, 3] with a Gaussian of `deviation` frames, separately between teleports."""
    cuts = np.flatnonzero(np.linalg.norm(np.diff(path, axis=0), axis=1) > teleport_distance) + 1
    half_width = max(1, round(3.0 * deviation))
    kernel = np.exp(-0.5 * (np.arange(-half_width, half_width + 1) / max(deviation, 1e-6)) ** 2)
    parts = []
    for part in np.split(path, cuts):
        padded = np.pad(part, ((half_width, half_width), (0, 0)), mode="edge")
        parts.append(np.stack([np.convolve(axis, kernel / kernel.sum(), mode="valid") for axis in padded.T], axis=1))
    return np.concatenate(parts)
