"""What this machine offers."""

import os

import torch

__all__ = ["lane_bytes", "shared_memory", "usable_cores"]

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
