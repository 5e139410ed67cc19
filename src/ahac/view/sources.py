"""What a viewer watches: something that can be reset and stepped, and a recording as such a thing."""

from __future__ import annotations

from typing import Protocol

from ahac.core.errors import InputError
from ahac.view.scene import Scene
from ahac.view.trajectory import Frame, Trajectory

__all__ = ["TrajectorySource", "ViewSource"]


class ViewSource(Protocol):
    """Some worlds that move while someone looks on; a viewer calls all of it from one thread."""

    @property
    def scene(self) -> Scene:
        """What is drawn."""
        ...

    @property
    def dt(self) -> float:
        """Seconds of the world per step."""
        ...

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """What can be chosen, as a run's checkpoints; may be empty, and may grow."""
        ...

    def reset(self) -> Frame:
        """Begin anew."""
        ...

    def step(self) -> Frame:
        """Go on by `dt` seconds."""
        ...

    def push(self) -> None:
        """Give the robots a shove; refused with an InputError where that cannot be."""
        ...

    def load_checkpoint(self, name: str) -> None:
        """Take one of the choices."""
        ...


class TrajectorySource:
    """A recording as a stage: it plays, and begins again after its last frame."""

    checkpoints: tuple[str, ...] = ()

    def __init__(self, trajectory: Trajectory) -> None:
        trajectory.check()
        self._trajectory = trajectory
        self._now = 0
        self.scene = trajectory.scene
        self.dt = trajectory.dt

    def reset(self) -> Frame:
        """Back to the first frame."""
        self._now = 0
        return self._trajectory.frame(0)

    def step(self) -> Frame:
        """The next frame."""
        self._now = (self._now + 1) % len(self._trajectory)
        return self._trajectory.frame(self._now)

    def push(self) -> None:
        """Refused: what was recorded has happened."""
        raise InputError("a recording cannot be pushed; play the run or the task itself: ahac play RUN|TASK|ROBOT.xml")

    def load_checkpoint(self, name: str) -> None:
        """Refused: there is nothing to choose from."""
        raise InputError(f"a recording has no checkpoints, got {name!r}; play the run itself: ahac play RUN")
