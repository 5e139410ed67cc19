"""View sources and playback: trajectories that source, and steps that follow a clock."""

import numpy as np
import pytest

from ahac.core.errors import InputError
from ahac.view.playback import LONGEST_GAP, Playback, nonfinite_error
from ahac.view.sources import TrajectorySource
from ahac.view.trajectory import Frame
from support.sample_scene import falling_ball


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def playing(frames: int = 100) -> tuple[Playback, Clock]:
    clock = Clock()
    return Playback(TrajectorySource(falling_ball(frames=frames)), clock=clock), clock


def height(frame: Frame) -> float:
    return float(frame.position[0, 1, 2])


def test_a_trajectory_sources_in_a_loop() -> None:
    trajectory = falling_ball(frames=3)
    source = TrajectorySource(trajectory)
    shown = [height(source.reset())] + [height(source.step()) for _ in range(3)]
    assert shown == [trajectory.position[t, 0, 1, 2] for t in (0, 1, 2, 0)]


def test_a_trajectory_refuses_pushes_and_checkpoints() -> None:
    source = TrajectorySource(falling_ball())
    with pytest.raises(InputError, match="cannot be pushed"):
        source.push()
    with pytest.raises(InputError, match="no checkpoints, got 'best'"):
        source.load_checkpoint("best")


def test_a_trajectory_with_a_non_finite_number_is_refused() -> None:
    trajectory = falling_ball()
    trajectory.position[2, 0, 1, 2] = np.nan
    with pytest.raises(InputError, match="frame 2"):
        TrajectorySource(trajectory)


def test_playback_follows_the_clock() -> None:
    playback, clock = playing()
    clock.now = 0.055  # Frames are 0.01 s apart.
    assert len(list(playback.advance())) == 5
    clock.now = 0.061
    assert len(list(playback.advance())) == 1
    assert playback.time == pytest.approx(0.06)


def test_slow_motion_steps_less_often() -> None:
    playback, clock = playing()
    playback.speed = 0.1
    clock.now = 0.095
    assert len(list(playback.advance())) == 0
    clock.now = 0.15
    assert len(list(playback.advance())) == 1


def test_playback_does_not_catch_up_after_a_pause() -> None:
    playback, clock = playing()
    playback.paused = True
    clock.now = 5.0
    assert not list(playback.advance())
    playback.paused = False
    clock.now = 5.025
    assert len(list(playback.advance())) == 2


def test_playback_catches_up_only_briefly_after_a_hitch() -> None:
    playback, clock = playing()
    clock.now = 60.0
    assert len(list(playback.advance())) <= round(LONGEST_GAP / 0.01)


def test_reset_works_while_paused() -> None:
    playback, _ = playing()
    playback.paused = True
    first = height(playback.frame)
    assert height(playback.step()) < first
    assert height(playback.reset()) == first
    assert playback.time == 0.0


def test_non_finite_poses_name_their_worlds() -> None:
    frame = falling_ball(worlds=3).frame(0)
    assert nonfinite_error(frame) is None
    frame.position[1, 1, 0] = np.inf
    error = nonfinite_error(frame)
    assert error is not None
    assert "world 1:" in str(error)
