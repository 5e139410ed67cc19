"""`ahac doctor`: versions, hardware and the state of the kernel cache."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from ahac.cli.parser import Parser
from ahac.core.errors import CompileError

__all__ = ["doctor", "findings"]

PACKAGES = ("ahac", "torch", "warp-lang", "mujoco", "gymnasium", "numpy", "onnx", "onnxruntime")


def doctor(arguments: list[str]) -> int:
    """Run `ahac doctor`."""
    about = "Show versions, hardware, and the folders of compiled kernels and runs."
    Parser("ahac doctor", "", about).parse(arguments)
    for line in findings():
        sys.stdout.write(f"{line}\n")
    return 0


def findings() -> list[str]:
    """Return the report, one finding per line."""
    import torch

    from ahac.core.hardware import usable_cores
    from ahac.training.manifest import package_version

    lines = [f"python {platform.python_version()} on {platform.platform()}"]
    lines += [f"{name} {package_version(name) or 'is not installed'}" for name in PACKAGES]
    lines.append(f"cpu: {usable_cores()} cores, {torch.backends.cpu.get_cpu_capability()}")
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        lines.append(f"cuda: {torch.cuda.get_device_name()}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free")
    else:
        lines.append("cuda: no device that torch can use; training runs on the CPU")
    lines += _kernel_cache()
    writable = os.access(".", os.W_OK)
    lines.append(f"runs: {Path('runs').resolve()} ({'writable' if writable else 'NOT writable'})")
    return lines


def _kernel_cache() -> list[str]:
    from ahac.native.build import cache_contents
    from ahac.native.cache import Module

    try:
        cache = cache_contents()
    except CompileError as error:
        return [f"kernel cache: {error}"]
    if cache.problem is None:
        state = "writable"
    else:
        state = f"NOT writable: {cache.problem}; free some space, or set WARP_CACHE_PATH to a writable folder"
    lines = [f"kernel cache: {len(cache.modules)} kernels, {cache.size / 1e6:.0f} MB in {cache.folder} ({state})"]
    if damaged := [name for name, state in cache.modules.items() if state is Module.DAMAGED]:
        lines.append(f"kernel cache: {len(damaged)} DAMAGED, recompiled on next use: {', '.join(damaged)}")
    if unchecked := sum(state is Module.UNCHECKED for state in cache.modules.values()):
        lines.append(f"kernel cache: {unchecked} without checksums, recompiled on next use")
    return lines
