"""What this machine offers: versions, devices, and the state of the kernel cache."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

from ahac.core.errors import CompileError
from ahac.core.hardware import usable_cores
from ahac.native.build import cache_contents
from ahac.native.cache import Module
from ahac.training.manifest import package_version

__all__ = ["findings"]

PACKAGES = ("ahac", "torch", "warp-lang", "mujoco", "gymnasium", "numpy")


def findings() -> list[str]:
    """One line each, as it is."""
    lines = [f"python {platform.python_version()} on {platform.platform()}"]
    lines += [f"{name} {package_version(name) or 'is not installed'}" for name in PACKAGES]
    lines.append(f"cpu: {usable_cores()} cores, {torch.backends.cpu.get_cpu_capability()}")
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        lines.append(f"cuda: {torch.cuda.get_device_name()}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free")
    else:
        lines.append("cuda: none that torch can use; training runs on the CPU")
    lines += _kernel_cache()
    writable = os.access(".", os.W_OK)
    lines.append(f"runs: {Path('runs').resolve()} ({'can' if writable else 'CANNOT'} be written)")
    return lines


def _kernel_cache() -> list[str]:
    try:
        cache = cache_contents()
    except CompileError as error:
        return [f"kernel cache: {error}"]
    if cache.problem is None:
        state = "can be written"
    else:
        state = f"CANNOT be written: {cache.problem}; free some space, or set WARP_CACHE_PATH to a writable folder"
    lines = [f"kernel cache: {len(cache.modules)} kernels, {cache.size / 1e6:.0f} MB in {cache.folder} ({state})"]
    again = "compiled again when they are next used"
    if damaged := [name for name, state in cache.modules.items() if state is Module.DAMAGED]:
        lines.append(f"kernel cache: {len(damaged)} DAMAGED, {again}: {', '.join(damaged)}")
    if unchecked := sum(state is Module.UNCHECKED for state in cache.modules.values()):
        lines.append(f"kernel cache: {unchecked} without checksums, {again}")
    return lines
