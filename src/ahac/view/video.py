"""Films and pictures of a trajectory, on machines without a display too; what is drawn with is in `film_worker`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ahac.core.checks import check_finite, check_int
from ahac.core.errors import AhacError, InputError
from ahac.core.files import atomic_write
from ahac.view.render_job import RenderJob, build_render_job
from ahac.view.scene import Scene
from ahac.view.trajectory import Trajectory
from ahac.view.video_worker import NO_GRAPHICS

__all__ = ["save_thumbnail", "save_video"]

ENCODERS = {".mp4": "imageio_ffmpeg", ".gif": "PIL"}
"""The package that writes each kind of film."""
LIBRARIES = ("egl", "osmesa")
"""MuJoCo's names for what can draw without a display, the faster one first where there is a GPU."""
VARIABLE = "MUJOCO_GL"
SMALLEST, LARGEST = 16, 4096
"""Sides of a picture [pixels]."""


def save_video(
    trajectory: Trajectory,
    path: str | os.PathLike[str],
    *,
    size: tuple[int, int] = (640, 480),
    fps: float = 30,
    follow: bool = True,
    world: int = 0,
) -> None:
    """Write a film, .mp4 or .gif.

    Args:
        trajectory: What is filmed.
        path: Where the film goes; its suffix says what kind it is.
        size: Width and height [pixels].
        fps: Frames per second; a .gif can only have 100, 50, 33.3, 25, ... of them, and the nearest is taken.
        follow: Whether the camera goes with the robot.
        world: Which world is filmed.

    Raises:
        InputError: If the trajectory has numbers that are not finite, or this machine cannot draw.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in ENCODERS:
        raise InputError(f"a film is a {' or '.join(ENCODERS)} file, got {str(path)!r}")
    if check_finite("fps", fps, 1.0) > 100.0:
        raise InputError(f"fps must be 100 frames per second at most, got {fps}")
    if suffix == ".gif":
        fps = 100.0 / round(100.0 / fps)
    _draw(trajectory, path, suffix, _checked(size, even=suffix == ".mp4"), (fps, follow, world))


def save_thumbnail(
    trajectory: Trajectory, path: str | os.PathLike[str], *, size: tuple[int, int] = (480, 360), world: int = 0
) -> None:
    """Write a picture of the middle of a trajectory, .png."""
    if Path(path).suffix.lower() != ".png":
        raise InputError(f"a picture is a .png file, got {str(path)!r}")
    _draw(trajectory.at(len(trajectory) // 2), path, ".png", _checked(size), (1.0 / trajectory.dt, True, world))


def _draw(
    trajectory: Trajectory,
    path: str | os.PathLike[str],
    suffix: str,
    size: tuple[int, int],
    how: tuple[float, bool, int],
) -> None:
    """Prepare frames, and have a process draw and encode them."""
    package = ENCODERS.get(suffix, "PIL")
    if find_spec(package) is None:
        raise InputError(f"{suffix} files need {package}, which is not installed: pip install 'ahac[view]'")
    trajectory.check()
    fps, follow, world = how
    shot = build_render_job(trajectory, world, fps, follow)
    with tempfile.TemporaryDirectory(prefix="ahac-film-") as folder, atomic_write(path) as unfinished:
        job, out = Path(folder, "job.npz"), Path(folder, f"out{suffix}")
        _write_job(job, trajectory.scene, shot, size, fps)
        _work(job, out)
        unfinished.write_bytes(out.read_bytes())


def _write_job(job: Path, scene: Scene, shot: RenderJob, size: tuple[int, int], fps: float) -> None:
    header = {"scene": scene.to_dict(), "size": size, "fps": fps, "reach": shot.reach, "span": shot.span}
    arrays = {item.name: getattr(shot, item.name) for item in fields(shot) if item.name not in header}
    np.savez(job, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)


def _work(job: Path, out: Path) -> None:
    """Try what can draw here, one after the other."""
    asked = os.environ.get(VARIABLE)
    said: list[str] = []
    for library in (asked,) if asked else LIBRARIES:
        environment = {**os.environ, VARIABLE: library}
        environment.pop("PYOPENGL_PLATFORM", None)
        command = [sys.executable, "-m", "ahac.view.video_worker", str(job), str(out)]
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode == 0:
            return
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        if done.returncode != NO_GRAPHICS and done.returncode > 0:
            raise AhacError(f"the film could not be made: {last}")
        said.append(f"{library}: {last if done.returncode > 0 else f'ended by signal {-done.returncode}'}")
    ways = f"`unset {VARIABLE}` has both of {' and '.join(LIBRARIES)} tried, {VARIABLE}={LIBRARIES[-1]} the surest one"
    chosen = f"; {VARIABLE}={asked} is set: {ways}" if asked else ""
    raise InputError(
        f"this machine cannot draw without a display ({'; '.join(said)}){chosen}. Install Debian's libosmesa6, or "
        "libegl1 and libgl1-mesa-dri, and pip install 'ahac[view]'; a recording as .html or .npz needs neither"
    )


def _checked(size: tuple[int, int], even: bool = False) -> tuple[int, int]:
    width, height = (check_int(name, value, SMALLEST) for name, value in zip(("width", "height"), size, strict=True))
    if max(width, height) > LARGEST or (even and (width % 2 or height % 2)):
        wanted = f"at most {LARGEST} pixels a side" + (", both even for an .mp4" if even else "")
        raise InputError(f"size must be {wanted}, got {width} x {height}")
    return width, height
