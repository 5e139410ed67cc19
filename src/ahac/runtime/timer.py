"""Time the phases of an iteration."""

from __future__ import annotations

import time

import torch

__all__ = ["PhaseTimer"]


class PhaseTimer:
    """Measures seconds between laps: with the host's clock, or with CUDA events, which do not block the host."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._cuda = device.type == "cuda"
        self._names: list[str] = []
        self._times: list[float] = []
        self._events: list[torch.cuda.Event] = []
        self._mark()

    def lap(self, name: str) -> None:
        """End a phase, and add the time since the last lap to its name."""
        self._names.append(name)
        self._mark()

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by phase name; on CUDA this waits for the end of the last phase."""
        if self._cuda:
            self._events[-1].synchronize()
            pairs = zip(self._events, self._events[1:], strict=False)
            durations = [1e-3 * first.elapsed_time(second) for first, second in pairs]
        else:
            durations = [second - first for first, second in zip(self._times, self._times[1:], strict=False)]
        total = dict.fromkeys(self._names, 0.0)
        for name, duration in zip(self._names, durations, strict=True):
            total[name] += duration
        return total

    def _mark(self) -> None:
        if self._cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record(torch.cuda.current_stream(self._device))
            self._events.append(event)
        else:
            self._times.append(time.perf_counter())
