"""Whether this machine can render without a display; tests of images are skipped if it cannot."""

import os
import subprocess
import sys
from functools import cache

import pytest

__all__ = ["require_graphics"]

PROBE = "import mujoco; mujoco.Renderer(mujoco.MjModel.from_xml_string('<mujoco/>'), 32, 32).render()"


def require_graphics() -> None:
    """Skip the test that calls this if no backend of MuJoCo can render."""
    if not any(_can_render(backend) for backend in ("osmesa", "egl")):
        pytest.skip("neither libosmesa6 nor libegl1 with libgl1-mesa-dri is installed")


@cache
def _can_render(backend: str) -> bool:
    environment = {**os.environ, "MUJOCO_GL": backend}
    return subprocess.run([sys.executable, "-c", PROBE], env=environment, capture_output=True).returncode == 0
