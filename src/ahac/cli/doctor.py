"""What this machine offers: versions, devices, where compiled kernels are kept."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from ahac.core.machine import usable_cores

__all__ = ["findings"]

PACKAGES = ("ahac", "torch", "warp-lang", "mujoco", "gymnasium", "numpy")


def findings() -> list[str]:
    """One line each, as it is."""
    lines = [f"python {platform.python_version()} on {platform.platform()}"]
    lines += [f"{name} {_version(name)}" for name in PACKAGES]
    lines.append(f"cpu: {usable_cores()} cores, {torch.backends.cpu.get_cpu_capability()}")
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        lines.append(f"cuda: {torch.cuda.get_device_name()}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free")
    else:
        lines.append("cuda: none that torch can use; training runs on the CPU")
    cache = Path(os.environ.get("WARP_CACHE_PATH") or Path.home() / ".cache" / "warp")
    size = sum(f.stat().st_size for f in cache.rglob("*") if f.is_file()) if cache.exists() else 0
    lines.append(f"compiled kernels: {size / 1e6:.0f} MB in {cache}")
    writable = os.access(".", os.W_OK)
    lines.append(f"runs: {Path('runs').resolve()} ({'can' if writable else 'CANNOT'} be written)")
    return lines


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "is not installed"
