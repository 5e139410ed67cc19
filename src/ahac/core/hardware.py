"""Hardware of this machine: cores, SIMD width, shared memory; and pinning to cores."""

import os
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

import torch

__all__ = ["lane_bytes", "pin_to_cores", "shared_memory", "split_cores", "usable_cores"]

LANE_BYTES = {"AVX512": 64, "AVX2": 32}
"""SIMD register widths by how torch's name of the CPU's capability begins; 16 (SSE, NEON) otherwise."""


def usable_cores() -> int:
    """CPU cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def lane_bytes() -> int:
    """Width of the CPU's SIMD registers."""
    capability = torch.backends.cpu.get_cpu_capability()
    return next((width for name, width in LANE_BYTES.items() if capability.startswith(name)), 16)


def shared_memory(device: torch.device) -> int:
    """Bytes that a block of CUDA threads may share there, less what Warp takes for itself, and some more."""
    found = torch.cuda.get_device_properties(device)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return found.shared_memory_per_block_optin - 4096  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


@contextmanager
def pin_to_cores(cores: set[int]) -> Generator[None]:
    """Pin this process and its children to `cores`; do nothing if the set is empty."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def split_cores(jobs: int) -> deque[set[int]]:
    """Split the cores of this process among jobs; with more jobs than cores, jobs share cores."""
    if not hasattr(os, "sched_setaffinity"):  # macOS, Windows
        return deque(set() for _ in range(jobs))
    cores = sorted(os.sched_getaffinity(0))
    if jobs > len(cores):
        return deque({cores[k % len(cores)]} for k in range(jobs))
    return deque(set(cores[k * len(cores) // jobs : (k + 1) * len(cores) // jobs]) for k in range(jobs))
