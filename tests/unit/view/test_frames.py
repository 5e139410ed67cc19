"""Frames from a process that stays open: it starts once, ends with its owner, and its failures are reported."""

import gc
import sys
from pathlib import Path

import numpy as np
import pytest

from ahac.core.errors import AhacError, InputError
from ahac.sim import load_model
from ahac.view.frames import FrameRenderer
from support.graphics import require_graphics
from support.robots import FREE_SPHERE, MUSCLE_ARM

HEIGHT = 0.1


def poses(bodies: int, x: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return poses of one world in which all bodies are at the same place."""
    position = np.zeros((1, bodies, 3), np.float32)
    position[:, 1:] = [x, 0.0, HEIGHT]
    return position, np.tile(np.eye(3, dtype=np.float32), (1, bodies, 1, 1))


@pytest.fixture
def ball() -> FrameRenderer:
    return FrameRenderer(load_model(FREE_SPHERE), (64, 48))


def test_one_process_renders_all_frames_and_the_camera_follows(ball: FrameRenderer) -> None:
    require_graphics()
    (first,) = ball.render(*poses(2))
    worker = ball._worker
    assert worker is not None
    (moved,) = ball.render(*poses(2, x=7.3))
    assert ball._worker is worker
    assert first.shape == (48, 64, 3)
    assert np.abs(first[20:28, 28:36].astype(int) - moved[20:28, 28:36]).mean() < 8.0, "the ball stays in the middle"
    ball.close()
    assert worker.process.returncode == 0


def test_muscles_are_drawn() -> None:
    require_graphics()
    model = load_model(MUSCLE_ARM)
    renderer = FrameRenderer(model, (96, 64))
    for _ in range(2):
        (image,) = renderer.render(*poses(len(model.bodies)))
    renderer.close()
    assert image.std() > 10.0


def test_the_process_ends_with_its_owner() -> None:
    require_graphics()
    renderer = FrameRenderer(load_model(FREE_SPHERE), (64, 48))
    renderer.render(*poses(2))
    assert renderer._worker is not None
    process = renderer._worker.process
    del renderer
    gc.collect()
    assert process.returncode == 0


def test_a_process_that_died_is_reported_and_replaced(ball: FrameRenderer) -> None:
    require_graphics()
    ball.render(*poses(2))
    assert ball._worker is not None
    ball._worker.process.kill()
    ball._worker.process.wait()
    with pytest.raises(AhacError, match="exited with status -9; render again to restart it"):
        ball.render(*poses(2))
    assert len(ball.render(*poses(2))) == 1
    ball.close()


def test_non_finite_poses_are_refused(ball: FrameRenderer) -> None:
    position, rotation = poses(2, x=np.nan)
    with pytest.raises(InputError, match=r"non-finite number: .*body 'ball'"):
        ball.render(position, rotation)


def test_without_graphics_it_says_what_to_install(ball: FrameRenderer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "disable")
    with pytest.raises(InputError, match=r"libosmesa6, or libegl1 and libgl1-mesa-dri"):
        ball.render(*poses(2))


def test_a_worker_that_fails_is_quoted(ball: FrameRenderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\necho 'OSError: disk full' >&2\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(AhacError, match="OSError: disk full"):
        ball.render(*poses(2))
