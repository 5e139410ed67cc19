"""Playback of a view source in real time, or at another speed, independent of the renderer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from ahac.core.errors import InputError
from ahac.view.sources import ViewSource
from ahac.view.trajectory import Frame

__all__ = ["Playback", "nonfinite_error"]

LONGEST_GAP = 0.1
"""Maximum real time to catch up on [s]; after a longer hitch, playback continues from where it was."""


class Playback:
    """Runs, pauses, steps and resets a view source."""

    def __init__(self, source: ViewSource, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._source = source
        self._clock = clock
        self._last = clock()
        self._due = 0.0
        self.paused = False
        self.speed = 1.0
        self.time = 0.0
        """Simulated time since the last reset [s]."""
        self.frame = self.reset()

    def reset(self) -> Frame:
        """Reset the source and the time."""
        self.frame = self._source.reset()
        self.time = 0.0
        self._due = 0.0
        return self.frame

    def step(self) -> Frame:
        """Advance by one step, even while paused."""
        self.frame = self._source.step()
        self.time += self._source.dt
        return self.frame

    def advance(self) -> Iterator[Frame]:
        """Yield the frames due since the last call, or fewer if the source is slower than real time."""
        now = self._clock()
        gap = min(now - self._last, LONGEST_GAP)
        self._last = now
        if self.paused:
            self._due = 0.0
            return
        self._due += gap * self.speed
        while self._due >= self._source.dt:
            if self._clock() - now > LONGEST_GAP:
                self._due = 0.0
                return
            self._due -= self._source.dt
            yield self.step()


def nonfinite_error(frame: Frame) -> InputError | None:
    """Return an error that names the worlds with non-finite poses, or None if all are finite."""
    finite = np.isfinite(frame.position).all(axis=(1, 2)) & np.isfinite(frame.quaternion).all(axis=(1, 2))
    if finite.all():
        return None
    worlds = ", ".join(str(i) for i in np.flatnonzero(~finite))
    return InputError(f"poses are not finite in world {worlds}: the simulation failed there; reset to continue")
