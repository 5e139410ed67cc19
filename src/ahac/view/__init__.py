"""Rendering of scenes and trajectories as a video, an HTML player or a live view; contains no physics.

    from ahac.view.video import save_video

    scene = scene_of(model)                     # visual geoms, planes, muscles and contact points
    trajectory = Trajectory.load("walk.npz")    # poses over time
    save_video(trajectory, "walk.mp4")

Viewers and encoders come with `pip install 'ahac[view]'` and are imported only when needed. The names below are loaded
on first use, because the process that renders videos must not load the simulator.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ahac.view.scene import Muscle, Scene, scene_of
    from ahac.view.trajectory import Frame, Recorder, Trajectory

__all__ = ["Frame", "Muscle", "Recorder", "Scene", "Trajectory", "scene_of"]

_FILES = {
    "Frame": "trajectory",
    "Muscle": "scene",
    "Recorder": "trajectory",
    "Scene": "scene",
    "Trajectory": "trajectory",
    "scene_of": "scene",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _FILES:
        raise AttributeError(f"module 'ahac.view' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(import_module(f"ahac.view.{_FILES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
