"""Trajectories without a simulator, for tests of rendering."""

import numpy as np
import pytest

from ahac.sim import load_model
from ahac.view.scene import scene_of
from ahac.view.trajectory import Trajectory
from support.robots import FREE_SPHERE, MUSCLE_ARM, SHAPES


def still(mjcf: str, frames: int, worlds: int) -> Trajectory:
    """Return a trajectory with all bodies at the origin, no contacts, and half-active muscles."""
    scene = scene_of(load_model(mjcf))
    start, bodies = (frames, worlds), len(scene.bodies)
    return Trajectory(
        scene,
        1 / 60,
        np.zeros((*start, bodies, 3)),
        np.broadcast_to([1.0, 0.0, 0.0, 0.0], (*start, bodies, 4)),
        np.zeros((*start, len(scene.contact_points), 3)),
        np.full((*start, len(scene.muscles)), 0.5),
        {"reward": np.arange(frames * worlds).reshape(start)},
    )


@pytest.fixture
def roll() -> Trajectory:
    """A ball of 2 kg in 2 worlds, 24 frames; it moves along x, supported by the ground."""
    trajectory = still(FREE_SPHERE, 24, 2)
    trajectory.position[:, :, 1] = [0.0, 0.0, 0.1]
    trajectory.position[:, :, 1, 0] = np.linspace(0.0, 1.0, 24)[:, None]
    trajectory.force[..., 2] = 2.0 * 9.81
    return trajectory


@pytest.fixture
def pull() -> Trajectory:
    """An arm with muscles in 1 world, 4 frames."""
    return still(MUSCLE_ARM, 4, 1)


@pytest.fixture
def shapes() -> Trajectory:
    """One geom of each kind, including a mesh, side by side above a slope and next to a wall; 1 frame."""
    trajectory = still(SHAPES, 1, 1)
    trajectory.position[:, :, 1:, 0] = 0.6 * np.arange(len(trajectory.scene.bodies) - 1)
    trajectory.position[:, :, 1:, 2] = 0.4
    return trajectory
