"""Other machines' rounding on this one: other SIMD widths, no fused multiply-add, torch without its fast kernels.

    pytest --rounding "no fma" tests/reference

A test whose result depends on the last bits of a float passes here and fails there. Kernels compiled for another
rounding have cache entries of their own.
"""

from __future__ import annotations

import os

import torch

from ahac.core import hardware
from ahac.native import warp_kernels

HERE = "this machine"
LANES = {"16 lanes": 64, "4 lanes": 16}
"""Bytes of a register, by how many float32 it holds."""
NO_FMA = "no fma"
PLAIN_TORCH = "plain torch"
PLAIN = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}
"""What makes torch and its libraries use the kernels of the oldest CPUs; registers then have 4 lanes."""

ROUNDINGS = (HERE, *LANES, NO_FMA, PLAIN_TORCH)


def use(rounding: str) -> None:
    """Compute like that from now on; call it once, before torch computes anything."""
    if rounding == PLAIN_TORCH:
        os.environ.update(PLAIN)
        if torch.backends.cpu.get_cpu_capability() != "DEFAULT":
            raise RuntimeError("torch has computed something already; choose the rounding before")
    if rounding in LANES:
        hardware.LANE_BYTES = {torch.backends.cpu.get_cpu_capability(): LANES[rounding]}
    if rounding == NO_FMA:
        fast = "-ffp-contract=fast"
        if fast not in warp_kernels.CPU_FLAGS:
            raise RuntimeError(f"CPU_FLAGS have no {fast} to replace: {warp_kernels.CPU_FLAGS}")
        warp_kernels.CPU_FLAGS = warp_kernels.CPU_FLAGS.replace(fast, "-ffp-contract=off")
