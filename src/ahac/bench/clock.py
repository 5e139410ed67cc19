"""Timing of several functions in turn, round after round, so that noise on the machine affects all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median

import torch

__all__ = ["interleaved"]

Work = Callable[[], object]


def interleaved(works: Mapping[str, Work], device: torch.device, seconds: float) -> dict[str, float]:
    """Return the median seconds per call of each function, over the rounds that fit into `seconds` (at least five)."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 5:
        for name, work in works.items():
            _wait(device)
            start = time.perf_counter()
            work()
            _wait(device)
            times[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in times.items()}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
