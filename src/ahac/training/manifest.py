"""What a run was started with: versions, hardware, time and git state."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from ahac.core.hardware import usable_cores

__all__ = ["manifest"]


def manifest(seed: int, device: str) -> dict[str, object]:
    """Of this machine, now."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "host": platform.node(),
        "platform": platform.platform(),
        "cores": usable_cores(),
        "gpu": gpu,
        "device": device,
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in ("ahac", "torch", "warp-lang", "mujoco", "numpy")},
        "git": _git_state(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_state() -> dict[str, object] | None:
    """Commit of the source tree that runs, and whether it was changed; None outside of one."""
    here = Path(__file__).parent
    try:
        commit, changes = (
            subprocess.run(["git", *command], cwd=here, capture_output=True, text=True, check=True, timeout=10).stdout
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit.strip(), "changed": bool(changes.strip())}
