"""Hardware of this machine: CPU cores, SIMD width, shared memory; pinning processes to cores."""

import os
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

import torch

__all__ = ["has_tf32", "lane_bytes", "pin_to_cores", "shared_memory", "split_cores", "usable_cores"]

LANE_BYTES = {"AVX512": 64, "AVX2": 32}
"""SIMD register widths in bytes, by prefix of torch's CPU capability; 16 (SSE, NEON) otherwise."""


def usable_cores() -> int:
    """Return the number of CPU cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def lane_bytes() -> int:
    """Return the width of the CPU's SIMD registers, in bytes."""
    capability = torch.backends.cpu.get_cpu_capability()
    return next((width for name, width in LANE_BYTES.items() if capability.startswith(name)), 16)


def shared_memory(device: torch.device) -> int:
    """Return the bytes of shared memory available to a block of CUDA threads, less 4096 for Warp and some margin."""
    properties = torch.cuda.get_device_properties(device)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return properties.shared_memory_per_block_optin - 4096  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def has_tf32(device: torch.device) -> bool:
    """Return whether a GPU has tensor cores for TF32: since compute capability 8.0 (Ampere)."""
    return torch.cuda.get_device_capability(device) >= (8, 0)


@contextmanager
def pin_to_cores(cores: set[int]) -> Generator[None]:
    """Pin this process and its children to `cores`; do nothing if the set is empty or the system cannot pin."""
    if not cores or not hasattr(os, "sched_setaffinity"):  # macOS, Windows
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
