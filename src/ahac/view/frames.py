"""Single frames as arrays, without a display: a worker process stays open between frames and renders one after another.

renderer = FrameRenderer(model)
poses = simulator.poses(q)
images = renderer.render(poses.position.numpy(), poses.rotation.numpy())    # uint8 [480, 480, 3], one per world
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import weakref
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import IO

import numpy as np

from ahac.core.errors import AhacError
from ahac.sim.model.types import Model
from ahac.view.quaternions import from_matrix
from ahac.view.render_job import RenderJob, build_render_job
from ahac.view.scene import scene_of
from ahac.view.trajectory import Trajectory
from ahac.view.video import check_size, try_backends, write_job
from ahac.view.video_worker import LENGTH_BYTES

__all__ = ["FrameRenderer"]

GRACE = 5.0
"""Seconds that a worker has to exit before it is killed."""


@dataclass(frozen=True, eq=False)
class _Worker:
    """A process that renders jobs from its standard input."""

    process: subprocess.Popen[bytes]
    stdin: IO[bytes]
    stdout: IO[bytes]

    def send(self, job: bytes) -> None:
        # A worker that has exited is noticed when its answer is read.
        with suppress(BrokenPipeError):
            self.stdin.write(len(job).to_bytes(LENGTH_BYTES, "little") + job)
            self.stdin.flush()

    def stop(self) -> None:
        with suppress(BrokenPipeError):
            self.stdin.close()
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.stdout.close()


class FrameRenderer:
    """Renders poses of one model as images; the camera moves with the robot's root and keeps its distance.

    Contact forces are not drawn, and muscles have the color of muscles at rest.
    """

    def __init__(self, model: Model, size: tuple[int, int] = (480, 480)) -> None:
        """Prepare to render; the worker process starts with the first frame.

        Args:
            model: What to draw.
            size: Width and height of images [pixels].
        """
        self.scene = scene_of(model)
        self.size = check_size(size)
        self._worker: _Worker | None = None
        self._offset = np.zeros(3)
        """From the root to the point that the camera looks at, as in the first frame [m]."""
        self._stop: weakref.finalize[[], FrameRenderer] | None = None

    def render(self, position: np.ndarray, rotation: np.ndarray) -> list[np.ndarray]:
        """Return one uint8 image [H, W, 3] per world.

        Args:
            position: [N, B, 3] body positions [m].
            rotation: [N, B, 3, 3] body rotations, body axes to world axes.

        Raises:
            InputError: If a number is not finite, or this machine has no rendering backend.
        """
        job = self._job(position, from_matrix(rotation))
        root = position[:, self.scene.root]
        if self._worker is None:
            self._offset = job.target[0] - root[0]
        job = replace(job, target=root + self._offset)
        if self._worker is None:
            return self._start(job)
        self._worker.send(_packed(job))
        frames = _read(self._worker.stdout, len(position), self.size)
        if frames is None:
            code = self._worker.process.wait()
            self.close()
            raise AhacError(f"the process that renders frames exited with status {code}; render again to restart it")
        return frames

    def close(self) -> None:
        """End the worker process; rendering again starts a new one."""
        if self._stop is not None:
            self._stop()
        self._worker = None

    def _job(self, position: np.ndarray, quaternion: np.ndarray) -> RenderJob:
        """Return a job whose frames are the worlds."""
        count = len(position)
        force = np.zeros((count, 1, len(self.scene.contact_points), 3), np.float32)
        activation = np.zeros((count, 1, len(self.scene.muscles)), np.float32)
        worlds = Trajectory(self.scene, 1.0, position[:, None], quaternion[:, None], force, activation)
        worlds.check()
        return build_render_job(worlds, 0, 1.0, follow=True)

    def _start(self, job: RenderJob) -> list[np.ndarray]:
        """Start a worker with the first backend that renders this job, and return its frames."""
        content = io.BytesIO()
        write_job(content, self.scene, job, self.size, 1.0)
        frames: list[np.ndarray] = []

        def run(environment: dict[str, str]) -> tuple[int, str]:
            with tempfile.TemporaryFile() as stderr:
                worker = _launch(environment, stderr)
                worker.send(content.getvalue())
                answer = _read(worker.stdout, len(job.count), self.size)
                if answer is not None:
                    frames.extend(answer)
                    self._worker = worker
                    self._stop = weakref.finalize(self, worker.stop)
                    return 0, ""
                worker.stop()
                stderr.seek(0)
                return worker.process.returncode or 1, stderr.read().decode(errors="replace")

        try_backends(run)
        return frames


def _launch(environment: dict[str, str], stderr: IO[bytes]) -> _Worker:
    process = subprocess.Popen(
        [sys.executable, "-m", "ahac.view.video_worker"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )
    assert process.stdin is not None  # PIPE above
    assert process.stdout is not None
    return _Worker(process, process.stdin, process.stdout)


def _packed(job: RenderJob) -> bytes:
    content = io.BytesIO()
    arrays = {item.name: getattr(job, item.name) for item in fields(job)}
    np.savez(content, allow_pickle=False, **arrays)
    return content.getvalue()


def _read(stream: IO[bytes], count: int, size: tuple[int, int]) -> list[np.ndarray] | None:
    """Return the images of an answer; None if the worker has exited."""
    width, height = size
    content = stream.read(count * width * height * 3)
    if len(content) < count * width * height * 3:
        return None
    return [*np.frombuffer(content, np.uint8).reshape(count, height, width, 3).copy()]
