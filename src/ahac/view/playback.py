"""Keeping time: how a stage steps so that it runs at the speed asked for, whoever draws it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from ahac.core.errors import InputError
from ahac.view.sources import ViewSource
from ahac.view.trajectory import Frame

__all__ = ["Playback", "nonfinite_error"]

LONGEST_GAP = 0.1
"""Real time that is made up for at most [s]: after a hitch the world goes on from where it was."""


class Playback:
    """A stage that runs, pauses, steps and begins anew."""

    def __init__(self, stage: ViewSource, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._stage = stage
        self._clock = clock
        self._last = clock()
        self._due = 0.0
        self.paused = False
        self.speed = 1.0
        self.time = 0.0
        """Of the world, since the last reset [s]."""
        self.frame = self.reset()

    def reset(self) -> Frame:
        """Begin anew."""
        self.frame = self._stage.reset()
        self.time = 0.0
        self._due = 0.0
        return self.frame

    def step(self) -> Frame:
        """Go on by one step, paused or not."""
        self.frame = self._stage.step()
        self.time += self._stage.dt
        return self.frame

    def advance(self) -> Iterator[Frame]:
        """The frames that have become due since the last call; fewer where the stage is too slow for real time."""
        now = self._clock()
        gap = min(now - self._last, LONGEST_GAP)
        self._last = now
        if self.paused:
            self._due = 0.0
            return
        self._due += gap * self.speed
        while self._due >= self._stage.dt:
            if self._clock() - now > LONGEST_GAP:
                self._due = 0.0
                return
            self._due -= self._stage.dt
            yield self.step()


def nonfinite_error(frame: Frame) -> InputError | None:
    """What is wrong with a moment that cannot be drawn."""
    fine = np.isfinite(frame.position).all(axis=(1, 2)) & np.isfinite(frame.quaternion).all(axis=(1, 2))
    if fine.all():
        return None
    worlds = ", ".join(str(i) for i in np.flatnonzero(~fine))
    return InputError(f"poses are not finite in world {worlds}: the simulation failed there; reset to begin anew")
