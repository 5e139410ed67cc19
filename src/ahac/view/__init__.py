"""Drawing: a robot's shapes and a trajectory of poses become a film, a page or a live view; no physics in it.

    scene = scene_of(model)                     # what is drawn: shapes, planes, muscles, points that may touch
    trajectory = Trajectory.load("walk.npz")    # how it moves
    ahac.view.video.film(trajectory, "walk.mp4")

Viewers and encoders come with `pip install 'ahac[view]'`; nothing of them is imported before it is needed. What stands
here is fetched when it is first used: the process that draws a film must not load the simulator.
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
    """Fetch what is asked for from its file."""
    if name not in _FILES:
        raise AttributeError(f"module 'ahac.view' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(import_module(f"ahac.view.{_FILES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
