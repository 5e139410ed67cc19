"""Record of the environment in which a run was started: versions, hardware, time and git state."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from ahac.core.hardware import usable_cores

__all__ = ["manifest", "package_version"]


def manifest(seed: int, device: str) -> dict[str, object]:
    """Return the content of manifest.json for this machine and the current time."""
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
        "versions": {name: package_version(name) for name in ("ahac", "torch", "warp-lang", "mujoco", "numpy")},
        "git": _git_state(),
    }


def package_version(package: str) -> str | None:
    """Return the installed version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_state() -> dict[str, object] | None:
    """Return the commit of the source tree and whether it has uncommitted changes; None outside a git repository."""
    here = Path(__file__).parent
    try:
        commit, changes = (
            subprocess.run(["git", *command], cwd=here, capture_output=True, text=True, check=True, timeout=10).stdout
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit.strip(), "changed": bool(changes.strip())}
