"""Videos and thumbnails of a trajectory, without a display; `video_worker` does the rendering."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import numpy as np

from ahac.core.checks import check_finite, check_int
from ahac.core.errors import AhacError, InputError
from ahac.core.files import atomic_write
from ahac.view.render_job import RenderJob, build_render_job
from ahac.view.scene import Scene
from ahac.view.trajectory import Trajectory
from ahac.view.video_worker import NO_GRAPHICS

__all__ = ["check_size", "save_thumbnail", "save_video", "try_backends", "write_job"]

ENCODERS = {".mp4": "imageio_ffmpeg", ".gif": "PIL"}
"""Package that encodes each video format."""
BACKENDS = ("egl", "osmesa")
"""MuJoCo's rendering backends that need no display; on a GPU, the first is faster."""
VARIABLE = "MUJOCO_GL"
SMALLEST = 16
"""Minimum width and height [pixels]."""
LARGEST = 4096
"""Maximum width and height [pixels]."""


def save_video(
    trajectory: Trajectory,
    path: str | os.PathLike[str],
    *,
    size: tuple[int, int] = (640, 480),
    fps: float = 30,
    follow: bool = True,
    world: int = 0,
) -> None:
    """Write a video.

    Args:
        trajectory: Trajectory to render.
        path: Output file; the suffix .mp4 or .gif selects the format.
        size: Width and height [pixels]; must be even for .mp4.
        fps: Frames per second; for .gif, rounded to the nearest supported rate of 100, 50, 33.3, 25, ...
        follow: Whether the camera follows the robot.
        world: Index of the world to render.

    Raises:
        InputError: If the trajectory has non-finite numbers, or this machine has no rendering backend.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in ENCODERS:
        raise InputError(f"a video must be a {' or '.join(ENCODERS)} file, got {str(path)!r}")
    if check_finite("fps", fps, 1.0) > 100.0:
        raise InputError(f"fps must be at most 100, got {fps}")
    if suffix == ".gif":
        fps = 100.0 / round(100.0 / fps)
    _render(trajectory, path, suffix, check_size(size, even=suffix == ".mp4"), (fps, follow, world))


def save_thumbnail(
    trajectory: Trajectory, path: str | os.PathLike[str], *, size: tuple[int, int] = (480, 360), world: int = 0
) -> None:
    """Write the middle frame of a trajectory as a .png file."""
    if Path(path).suffix.lower() != ".png":
        raise InputError(f"a thumbnail must be a .png file, got {str(path)!r}")
    _render(trajectory.at(len(trajectory) // 2), path, ".png", check_size(size), (1.0 / trajectory.dt, True, world))


def _render(
    trajectory: Trajectory,
    path: str | os.PathLike[str],
    suffix: str,
    size: tuple[int, int],
    options: tuple[float, bool, int],
) -> None:
    """Prepare a render job, and run a process that renders and encodes it; options are (fps, follow, world)."""
    package = ENCODERS.get(suffix, "PIL")
    if find_spec(package) is None:
        raise InputError(f"{suffix} files need {package}, which is not installed: pip install 'ahac[view]'")
    trajectory.check()
    fps, follow, world = options
    job = build_render_job(trajectory, world, fps, follow)
    with tempfile.TemporaryDirectory(prefix="ahac-video-") as folder, atomic_write(path) as unfinished:
        job_file = Path(folder, "job.npz")
        out = Path(folder, f"out{suffix}")
        write_job(job_file, trajectory.scene, job, size, fps)
        _run_worker(job_file, out)
        unfinished.write_bytes(out.read_bytes())


def write_job(file: Path | IO[bytes], scene: Scene, job: RenderJob, size: tuple[int, int], fps: float) -> None:
    """Write a job with its header for `video_worker`."""
    header = {"scene": scene.to_dict(), "size": size, "fps": fps, "reach": job.reach, "span": job.span}
    arrays = {item.name: getattr(job, item.name) for item in fields(job) if item.name not in header}
    np.savez(file, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)


def _run_worker(job: Path, out: Path) -> None:
    def run(environment: dict[str, str]) -> tuple[int, str]:
        command = [sys.executable, "-m", "ahac.view.video_worker", str(job), str(out)]
        worker = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return worker.returncode, worker.stderr

    try_backends(run)


def try_backends(run: Callable[[dict[str, str]], tuple[int, str]]) -> None:
    """Render with the first backend that works.

    Args:
        run: Runs a worker with these environment variables, and returns its exit code and what it wrote to stderr.
    """
    requested = os.environ.get(VARIABLE)
    errors: list[str] = []
    for backend in (requested,) if requested else BACKENDS:
        environment = {**os.environ, VARIABLE: backend}
        environment.pop("PYOPENGL_PLATFORM", None)
        code, stderr = run(environment)
        if code == 0:
            return
        last = (stderr.strip().splitlines() or ["no error message"])[-1]
        if code != NO_GRAPHICS and code > 0:
            raise AhacError(f"rendering the video failed: {last}")
        errors.append(f"{backend}: {last if code > 0 else f'killed by signal {-code}'}")
    hint = f"`unset {VARIABLE}` to try both {' and '.join(BACKENDS)}, or set {VARIABLE}={BACKENDS[-1]}"
    override = f"; {VARIABLE}={requested} is set: {hint}" if requested else ""
    raise InputError(
        f"this machine cannot render without a display ({'; '.join(errors)}){override}. Install Debian's libosmesa6, "
        "or libegl1 and libgl1-mesa-dri, and pip install 'ahac[view]'; .html and .npz files need none of these"
    )


def check_size(size: tuple[int, int], even: bool = False) -> tuple[int, int]:
    """Return width and height [pixels] if they are allowed."""
    width, height = (check_int(name, value, SMALLEST) for name, value in zip(("width", "height"), size, strict=True))
    if max(width, height) > LARGEST or (even and (width % 2 or height % 2)):
        expected = f"at most {LARGEST} pixels per side" + (", both even for .mp4" if even else "")
        raise InputError(f"size must be {expected}, got {width} x {height}")
    return width, height
