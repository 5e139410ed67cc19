"""One world of a trajectory as a camera takes it: which frames, from where, and the strokes drawn over the robot.

All of it is plain arrays, worked out here so that the process that draws (`film_worker`) loads no simulator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ahac.view.geometry import MusclePaths, arrows, batches, muscle_colors
from ahac.view.trajectory import Trajectory

__all__ = ["RenderJob", "build_render_job"]

FORCE_COLOR = (0.10, 0.72, 0.30)
ARROW_WIDTH, MUSCLE_WIDTH = 0.024, 0.009
"""Radii of strokes, as parts of the robot's reach."""
SMOOTHING_SECONDS = 0.25
"""The camera follows a mean over about this time [s]."""
TELEPORT_DISTANCE = 0.5
"""A robot that moves by this part of its reach between frames was put somewhere else: the camera leaps with it."""
FARTHEST = 6.0
"""A camera that stands still shows at most so many reaches of the way."""


@dataclass(frozen=True, eq=False)
class RenderJob:
    """T frames of one world, as they are drawn."""

    position: np.ndarray
    """[T, B, 3] of every body [m]."""
    quaternion: np.ndarray
    """[T, B, 4] of every body."""
    target: np.ndarray
    """[T, 3] what the camera looks at [m]."""
    reach: float
    """Radius of the robot [m]."""
    span: float
    """Radius of what the camera shows [m]."""
    ends: np.ndarray
    """[S, 2, 3] where strokes begin and end [m], those of all frames one after the other."""
    color: np.ndarray
    """[S, 3]."""
    width: np.ndarray
    """[S] radius [m]."""
    is_arrow: np.ndarray
    """[S] bool."""
    count: np.ndarray
    """[T] strokes of each frame."""


def build_render_job(trajectory: Trajectory, world: int, fps: float, follow: bool) -> RenderJob:
    """Frames of a world, `fps` of them a second."""
    chosen = trajectory.worlds([world])
    frames = max(1, round(len(chosen) * chosen.dt * fps))
    index = np.minimum(np.round(np.arange(frames) / (fps * chosen.dt)).astype(int), len(chosen) - 1)
    position = chosen.position[index, 0]
    quaternion = chosen.quaternion[index, 0]
    centre, reach = _extent(chosen, index)
    if follow:
        target = smooth_path(centre, SMOOTHING_SECONDS * fps, TELEPORT_DISTANCE * reach)
        span = reach
    else:
        low, high = centre.min(axis=0), centre.max(axis=0)
        target = np.broadcast_to((low + high) / 2.0, centre.shape)
        span = reach + min(float(np.linalg.norm(high - low)) / 2.0, FARTHEST * reach)
    strokes = [_strokes(chosen, int(t), reach) for t in index]
    return RenderJob(
        position=position,
        quaternion=quaternion,
        target=target,
        reach=reach,
        span=span,
        ends=np.concatenate([ends for ends, *_ in strokes]),
        color=np.concatenate([color for _, color, *_ in strokes]),
        width=np.concatenate([width for _, _, width, _ in strokes]),
        is_arrow=np.concatenate([is_arrow for *_, is_arrow in strokes]),
        count=np.array([len(ends) for ends, *_ in strokes]),
    )


def _extent(trajectory: Trajectory, index: np.ndarray) -> tuple[np.ndarray, float]:
    """[T, 3] the middle of the robot, and the radius around it within which it mostly is."""
    position = trajectory.position[index, 0]
    quaternion = trajectory.quaternion[index, 0]
    places, sizes = [position[:, [trajectory.scene.root]]], [np.zeros(1)]
    for batch in batches(trajectory.scene):
        moving = batch.body != 0
        places.append(batch.poses(position, quaternion)[0][:, moving])
        sizes.append((np.abs(batch.mesh.vertices).max() * batch.scale.max(axis=1))[moving])
    place, size = np.concatenate(places, axis=1), np.concatenate(sizes)
    middle = (place.min(axis=1) + place.max(axis=1)) / 2.0
    far = (np.linalg.norm(place - middle[:, None], axis=-1) + size).max(axis=1)
    return middle, max(float(np.quantile(far, 0.9)), 0.05)


def smooth_path(path: np.ndarray, spread: float, leap: float) -> np.ndarray:
    """A path smoothed by a bell curve of `spread` frames, between its leaps."""
    leaps = np.flatnonzero(np.linalg.norm(np.diff(path, axis=0), axis=1) > leap) + 1
    reach = max(1, round(3.0 * spread))
    bell = np.exp(-0.5 * (np.arange(-reach, reach + 1) / max(spread, 1e-6)) ** 2)
    parts = []
    for part in np.split(path, leaps):
        padded = np.pad(part, ((reach, reach), (0, 0)), mode="edge")
        parts.append(np.stack([np.convolve(axis, bell / bell.sum(), mode="valid") for axis in padded.T], axis=1))
    return np.concatenate(parts)


def _strokes(trajectory: Trajectory, t: int, reach: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ends, colours, widths and kinds of a frame's strokes: muscles, then arrows of contact forces."""
    scene, frame = trajectory.scene, trajectory.frame(t)
    paths = MusclePaths.of(scene)
    pieces = np.stack([part[0] for part in paths.ends(frame.position, frame.quaternion)], axis=1)
    tints = muscle_colors(frame.activation[0])[paths.muscle]
    forces, _ = arrows(scene, frame, reach)
    return (
        np.concatenate([pieces, forces]),
        np.concatenate([tints, np.broadcast_to(np.array(FORCE_COLOR), (len(forces), 3))]),
        np.repeat([MUSCLE_WIDTH * reach, ARROW_WIDTH * reach], [len(pieces), len(forces)]),
        np.repeat([False, True], [len(pieces), len(forces)]),
    )
