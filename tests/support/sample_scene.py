"""A small moving scene for tests of rendering: a ball and a capsule, connected by a muscle, above a floor."""

import numpy as np

from ahac.sim.model.types import Plane, VisualGeom
from ahac.view.scene import Muscle, Scene
from ahac.view.trajectory import Trajectory

UP = (0.0, 0.0, 1.0)
UPRIGHT = (1.0, 0.0, 0.0, 0.0)


def small_scene() -> Scene:
    ball = VisualGeom(
        geom="ball",
        kind="sphere",
        size=(0.2, 0.0, 0.0),
        body="ball",
        position=(0.0, 0.0, 0.0),
        quaternion=UPRIGHT,
        color=(0.9, 0.3, 0.1, 1.0),
    )
    arm = VisualGeom(
        geom="arm",
        kind="capsule",
        size=(0.05, 0.3, 0.0),
        body="arm",
        position=(0.0, 0.0, 0.1),
        quaternion=UPRIGHT,
        color=(0.2, 0.3, 0.8, 1.0),
    )
    muscle = Muscle("pull", ((1, (0.0, 0.2, 0.0)), (2, (0.0, 0.05, 0.0)), (2, (0.0, 0.0, 0.3))))
    return Scene(
        name="ball & arm",
        bodies=("world", "ball", "arm"),
        visuals=(ball, arm),
        planes=(Plane(name="floor", normal=UP, offset=0.0),),
        muscles=(muscle,),
        contact_points=((1, (0.0, 0.0, 0.0), 0.2, UP),),
        root=1,
        weight=10.0,
    )


def falling_ball(frames: int = 40, worlds: int = 1, dt: float = 0.01) -> Trajectory:
    """Return a ball that sinks from 1 m and moves along x, next to a rotating arm; each world is 0.1 s ahead."""
    t = np.arange(frames)[:, None] * dt + 0.1 * np.arange(worlds)
    position = np.zeros((frames, worlds, 3, 3), dtype=np.float32)
    position[:, :, 1:, 0] = 2.0 * t[..., None]
    position[:, :, 1, 2] = 1.0 - 0.5 * t
    position[:, :, 2] += np.array([0.0, 0.5, 0.6])
    quaternion = np.zeros((frames, worlds, 3, 4), dtype=np.float32)
    quaternion[..., 0] = 1.0
    quaternion[:, :, 2, 0], quaternion[:, :, 2, 1] = np.cos(t), np.sin(t)
    force = np.zeros((frames, worlds, 1, 3), dtype=np.float32)
    force[..., 2] = 10.0
    activation = np.clip(t, 0.0, 1.0)[..., None]
    channels = {"reward": np.sin(t), "torque elbow": np.cos(t), "torque wrist": -t}
    return Trajectory(small_scene(), dt, position, quaternion, force, activation, channels)
