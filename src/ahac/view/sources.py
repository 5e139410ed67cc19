"""Sources of frames for the live viewer: the protocol, and a source that replays a trajectory."""

from __future__ import annotations

from typing import Protocol

from ahac.core.errors import InputError
from ahac.view.scene import Scene
from ahac.view.trajectory import Frame, Trajectory

__all__ = ["TrajectorySource", "Velocity", "ViewSource"]

Velocity = tuple[float, float, float]
"""Forward and to the left [m/s], and yaw rate [rad/s]."""


class ViewSource(Protocol):
    """Worlds that the live viewer shows; the viewer calls all members from one thread."""

    @property
    def scene(self) -> Scene:
        """Scene to render."""
        ...

    @property
    def dt(self) -> float:
        """Simulated time per step [s]."""
        ...

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """Names of the checkpoints that can be loaded; may be empty, and may grow while a run trains."""
        ...

    @property
    def command_ranges(self) -> tuple[tuple[float, float], ...]:
        """Ranges of forward velocity, sideways velocity and yaw rate; empty if the worlds follow no commands."""
        ...

    @property
    def command(self) -> Velocity | None:
        """Velocity that `set_command` chose; None while commands vary as in training."""
        ...

    def set_command(self, command: Velocity | None) -> None:
        """Command a velocity in all worlds; None lets commands vary again."""
        ...

    def reset(self) -> Frame:
        """Reset all worlds and return the first frame."""
        ...

    def step(self) -> Frame:
        """Advance by `dt` seconds."""
        ...

    def push(self) -> None:
        """Push the robots; raise InputError if the source does not support it."""
        ...

    def load_checkpoint(self, name: str) -> None:
        """Continue with the policy of a checkpoint."""
        ...


class TrajectorySource:
    """Replays a trajectory in a loop."""

    checkpoints: tuple[str, ...] = ()
    command_ranges: tuple[tuple[float, float], ...] = ()
    command: Velocity | None = None

    def __init__(self, trajectory: Trajectory) -> None:
        trajectory.check()
        self.trajectory = trajectory
        self._now = 0
        self.scene = trajectory.scene
        self.dt = trajectory.dt

    def reset(self) -> Frame:
        """Return to the first frame."""
        self._now = 0
        return self.trajectory.frame(0)

    def step(self) -> Frame:
        """Return the next frame."""
        self._now = (self._now + 1) % len(self.trajectory)
        return self.trajectory.frame(self._now)

    def push(self) -> None:
        """Raise InputError: a trajectory cannot be pushed."""
        raise InputError(
            "a saved trajectory cannot be pushed; play the run or task itself: ahac play RUN|TASK|ROBOT.xml"
        )

    def set_command(self, command: Velocity | None) -> None:
        """Raise InputError: a trajectory follows no commands."""
        raise InputError("a saved trajectory follows no commands; play the run itself: ahac play RUN")

    def load_checkpoint(self, name: str) -> None:
        """Raise InputError: a trajectory has no checkpoints."""
        raise InputError(f"a saved trajectory has no checkpoints, got {name!r}; play the run itself: ahac play RUN")
