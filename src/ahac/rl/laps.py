"""Where an iteration's time goes."""

from __future__ import annotations

import time

__all__ = ["Laps"]


class Laps:
    """Seconds between marks, on the host's clock: on CUDA, work that is only queued counts where it is waited for."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def mark(self, name: str) -> None:
        """What was done since the last mark has this name."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now
