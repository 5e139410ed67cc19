"""Where an iteration's time goes."""

from __future__ import annotations

import time

import torch

__all__ = ["PhaseTimer"]


class PhaseTimer:
    """Seconds between marks: on the host's clock, or on a CUDA device's own, which does not wait for the host."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._cuda = device.type == "cuda"
        self._names: list[str] = []
        self._times: list[float] = []
        self._events: list[torch.cuda.Event] = []
        self._note()

    def lap(self, name: str) -> None:
        """What was done since the last mark has this name."""
        self._names.append(name)
        self._note()

    @property
    def seconds(self) -> dict[str, float]:
        """By name; on CUDA this waits for the work that was marked last."""
        if self._cuda:
            self._events[-1].synchronize()
            pairs = zip(self._events, self._events[1:], strict=False)
            spent = [1e-3 * first.elapsed_time(second) for first, second in pairs]
        else:
            spent = [second - first for first, second in zip(self._times, self._times[1:], strict=False)]
        total = dict.fromkeys(self._names, 0.0)
        for name, lap in zip(self._names, spent, strict=True):
            total[name] += lap
        return total

    def _note(self) -> None:
        if self._cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record(torch.cuda.current_stream(self._device))
            self._events.append(event)
        else:
            self._times.append(time.perf_counter())
