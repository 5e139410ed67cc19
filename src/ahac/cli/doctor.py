"""`ahac doctor`: versions, hardware and the state of the kernel cache."""

from __future__ import annotations

import platform
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from ahac.cli.parser import Parser
from ahac.core.errors import CompileError

__all__ = ["Finding", "doctor", "findings"]

PACKAGES = ("ahac", "torch", "warp-lang", "mujoco", "gymnasium", "numpy", "onnx", "onnxruntime")


class Finding(NamedTuple):
    """One line of the report."""

    text: str
    problem: bool = False
    """Whether commands will fail until it is fixed."""


def doctor(arguments: list[str]) -> int:
    """Run `ahac doctor`."""
    about = (
        "Show versions, hardware, and the folders of compiled kernels and runs, and check that both can be written.\n\n"
        "Exit status: 0 if all is well, 1 if a folder cannot be written."
    )
    Parser("ahac doctor", "", about).parse(arguments)
    report = findings()
    sys.stdout.write("".join(f"{finding.text}\n" for finding in report))
    return int(any(finding.problem for finding in report))


def findings() -> list[Finding]:
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
    return [*map(Finding, lines), *_kernel_cache(), _run_folder(Path("runs").resolve())]


def _run_folder(folder: Path) -> Finding:
    """Write a file to the folder of runs or, if it does not exist yet, to the one in which it will be created."""
    try:
        with tempfile.TemporaryFile(dir=folder if folder.exists() else folder.parent) as file:
            file.write(bytes(2**20))
    except OSError as error:
        problem = f"NOT writable: {error.strerror or error}; work in another folder, or choose one with --out"
        return Finding(f"runs: {folder} ({problem})", problem=True)
    return Finding(f"runs: {folder} (writable)")


def _kernel_cache() -> list[Finding]:
    from ahac.native.build import cache_contents
    from ahac.native.cache import Module

    try:
        cache = cache_contents()
    except CompileError as error:
        return [Finding(f"kernel cache: {error}", problem=True)]
    if cache.problem is None:
        state = "writable"
    else:
        state = f"NOT writable: {cache.problem}; free some space, or set WARP_CACHE_PATH to a writable folder"
    summary = f"kernel cache: {len(cache.modules)} kernels, {cache.size / 1e6:.0f} MB in {cache.folder} ({state})"
    lines = [Finding(summary, problem=cache.problem is not None)]
    if damaged := [name for name, state in cache.modules.items() if state is Module.DAMAGED]:
        names = ", ".join(damaged)
        lines.append(Finding(f"kernel cache: {len(damaged)} DAMAGED, recompiled on next use: {names}"))
    if unchecked := sum(state is Module.UNCHECKED for state in cache.modules.values()):
        lines.append(Finding(f"kernel cache: {unchecked} without checksums, recompiled on next use"))
    return lines
