"""Description of the machine that a benchmark ran on."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import torch

from ahac.core.hardware import usable_cores

__all__ = ["describe_machine"]


def describe_machine(device: str) -> dict[str, str]:
    """Return the processor, GPU and versions; `device` selects among several GPUs."""
    index = device if device.startswith("cuda") else None
    gpu = torch.cuda.get_device_name(index) if torch.cuda.is_available() else "none"
    models = [line.split(":")[1].strip() for line in _cpu_info() if line.startswith("model name")]
    packages = {name: version(name) for name in ("torch", "warp-lang", "mujoco")}
    return {
        "cpu": (*models, platform.processor())[0],
        "cores": str(usable_cores()),
        "gpu": gpu,
        "python": platform.python_version(),
        **packages,
    }


def _cpu_info() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
