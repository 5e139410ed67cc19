"""Rows of a table, measured one after the other: none sees what an earlier one left behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["Row", "clean_gpu"]

Row = dict[str, Any]
"""Plain numbers and words by column; None where there is nothing to tell."""


@contextmanager
def clean_gpu(device: str) -> Iterator[None]:
    """On CUDA, what earlier rows held is let go and peaks begin anew; the device is the current one meanwhile."""
    here = ["cuda", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    if not torch.cuda.is_available() or device not in here:
        yield  # the CPU, or what the simulator will refuse
        return
    torch.cuda.init()  # before, there are no statistics that could be reset
    with torch.cuda.device(device):  # graphs are recorded on the current one
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        yield
