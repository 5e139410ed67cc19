"""Preparation of a video: the frames of one world, the camera path, and the lines drawn over the robot.

A render job consists of plain arrays, so the process that renders it (`video_worker`) need not load the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ahac.view.camera import smooth_path
from ahac.view.geometry import MusclePaths, arrows, batches, muscle_colors
from ahac.view.trajectory import Trajectory

__all__ = ["RenderJob", "build_render_job"]

FORCE_COLOR = (0.10, 0.72, 0.30)
"""sRGB color of contact-force arrows."""
ARROW_WIDTH = 0.024
"""Radius of arrows, in units of the robot's reach."""
MUSCLE_WIDTH = 0.009
"""Radius of muscles, in units of the robot's reach."""
SMOOTHING_SECONDS = 0.25
"""Standard deviation of the Gaussian that smooths the camera path [s]."""
TELEPORT_DISTANCE = 0.5
"""The camera jumps with a robot that moves farther than this between frames, in units of the robot's reach."""
FARTHEST = 6.0
"""Maximum radius of the path that a fixed camera shows, in units of the robot's reach."""


@dataclass(frozen=True, eq=False)
class RenderJob:
    """T frames of one world, ready to render."""

    position: np.ndarray
    """[T, B, 3] body positions [m]."""
    quaternion: np.ndarray
    """[T, B, 4] body quaternions."""
    target: np.ndarray
    """[T, 3] point that the camera looks at [m]."""
    reach: float
    """Radius of the robot [m]."""
    span: float
    """Radius of the region that the camera shows [m]."""
    ends: np.ndarray
    """[S, 2, 3] start and end points of lines [m], concatenated over all frames."""
    color: np.ndarray
    """[S, 3] sRGB color."""
    width: np.ndarray
    """[S] radius [m]."""
    is_arrow: np.ndarray
    """[S] bool, whether a line is an arrow (contact force) or not (muscle)."""
    count: np.ndarray
    """[T] number of lines in each frame."""


def build_render_job(trajectory: Trajectory, world: int, fps: float, follow: bool) -> RenderJob:
    """Resample one world of a trajectory to `fps` frames per second and place the camera."""
    single = trajectory.worlds([world])
    frames = max(1, round(len(single) * single.dt * fps))
    index = np.minimum(np.round(np.arange(frames) / (fps * single.dt)).astype(int), len(single) - 1)
    position = single.position[index, 0]
    quaternion = single.quaternion[index, 0]
    center, reach = _extent(single, index)
    if follow:
        target = smooth_path(center, SMOOTHING_SECONDS * fps, TELEPORT_DISTANCE * reach)
        span = reach
    else:
        low, high = center.min(axis=0), center.max(axis=0)
        target = np.broadcast_to((low + high) / 2.0, center.shape)
        span = reach + min(float(np.linalg.norm(high - low)) / 2.0, FARTHEST * reach)
    lines = [_lines(single, int(t), reach) for t in index]
    return RenderJob(
        position=position,
        quaternion=quaternion,
        target=target,
        reach=reach,
        span=span,
        ends=np.concatenate([ends for ends, *_ in lines]),
        color=np.concatenate([color for _, color, *_ in lines]),
        width=np.concatenate([width for _, _, width, _ in lines]),
        is_arrow=np.concatenate([is_arrow for *_, is_arrow in lines]),
        count=np.array([len(ends) for ends, *_ in lines]),
    )


def _extent(trajectory: Trajectory, index: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the center of the robot's bounding box [T, 3], and the 0.9 quantile of its radius over the frames."""
    position = trajectory.position[index, 0]
    quaternion = trajectory.quaternion[index, 0]
    centers = [position[:, [trajectory.scene.root]]]
    radii = [np.zeros(1)]
    for batch in batches(trajectory.scene):
        moving = batch.body != 0
        centers.append(batch.poses(position, quaternion)[0][:, moving])
        radii.append((np.abs(batch.mesh.vertices).max() * batch.scale.max(axis=1))[moving])
    center = np.concatenate(centers, axis=1)
    radius = np.concatenate(radii)
    middle = (center.min(axis=1) + center.max(axis=1)) / 2.0
    far = (np.linalg.norm(center - middle[:, None], axis=-1) + radius).max(axis=1)
    return middle, max(float(np.quantile(far, 0.9)), 0.05)


def _lines(trajectory: Trajectory, t: int, reach: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ends, colors, widths and kinds of the lines in frame `t`: muscles first, then contact forces."""
    scene = trajectory.scene
    frame = trajectory.frame(t)
    paths = MusclePaths.of(scene)
    segments = np.stack([part[0] for part in paths.ends(frame.position, frame.quaternion)], axis=1)
    colors = muscle_colors(frame.activation[0])[paths.muscle]
    forces, _ = arrows(scene, frame, reach)
    return (
        np.concatenate([segments, forces]),
        np.concatenate([colors, np.broadcast_to(np.array(FORCE_COLOR), (len(forces), 3))]),
        np.repeat([MUSCLE_WIDTH * reach, ARROW_WIDTH * reach], [len(segments), len(forces)]),
        np.repeat([False, True], [len(segments), len(forces)]),
    )
