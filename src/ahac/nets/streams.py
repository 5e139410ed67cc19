"""Small works that keep only part of a GPU busy, done at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

__all__ = ["side_by_side"]


def side_by_side(works: Sequence[Callable[[], Tensor]], device: torch.device) -> list[Tensor]:
    """Their results; on CUDA all but the first have a stream of their own, and are over before what comes next."""
    if device.type != "cuda" or len(works) < 2:
        return [work() for work in works]
    here = torch.cuda.current_stream(device)
    # Each stream waits for what came before, also for the last use of memory that it is about to use again.
    streams = [here, *(_stream(device, k) for k in range(1, len(works)))]
    results = []
    for stream, work in zip(streams, works, strict=True):
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            results.append(work())
    for stream in streams:
        here.wait_stream(stream)
    return results


@cache
def _stream(device: torch.device, number: int) -> torch.cuda.Stream:
    """One that is kept: recorded work refers to none, but making them takes time."""
    return torch.cuda.Stream(device)
