"""Rows of a benchmark table, each measured with clean GPU memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["Row", "clean_gpu"]

Row = dict[str, Any]
"""Numbers and names by column; None where a value does not apply."""


@contextmanager
def clean_gpu(device: str) -> Iterator[None]:
    """On CUDA, free the memory of earlier rows, reset the peak, and make the device current inside the block."""
    devices = ["cuda", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    if not torch.cuda.is_available() or device not in devices:
        yield  # the CPU, or a device that the simulator will reject
        return
    torch.cuda.init()  # without this there are no statistics to reset
    with torch.cuda.device(device):  # CUDA graphs are captured on the current device
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        yield
