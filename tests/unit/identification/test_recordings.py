"""Recordings: checks, files, resampling, velocities from positions, and segments."""

from pathlib import Path

import numpy as np
import pytest

from ahac.core.errors import InputError
from ahac.identification import Recording, read_recording
from ahac.identification.recordings import estimate_velocities
from ahac.identification.segments import cut
from ahac.sim import Model, load_model

T = 101
TIME = np.linspace(0.0, 1.0, T)


def recording(**changes: object) -> Recording:
    arrays = {"time": TIME, "q": np.zeros((T, 1)), "v": np.zeros((T, 1)), "control": np.zeros((T, 1))}
    return Recording(**{**arrays, **changes})


@pytest.fixture(scope="module")
def pendulum() -> Model:
    return load_model(
        """<mujoco model="pendulum"><worldbody><body name="rod"><joint name="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 -.5" size=".02" mass="1"/></body></worldbody>
        <actuator><motor name="motor" joint="hinge"/></actuator></mujoco>"""
    )


@pytest.fixture(scope="module")
def free() -> Model:
    return load_model(
        """<mujoco><worldbody><body name="box"><freejoint/><geom size=".1 .1 .1" type="box" mass="1"/></body>
        </worldbody></mujoco>"""
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"time": np.zeros((T, 1))}, r"time must have shape \[T\]"),
        ({"time": TIME[::-1]}, "time must increase, but sample 1 is at"),
        ({"q": np.zeros((T - 1, 1))}, r"q must have shape \[101, size\].*got \[100, 1\]"),
        ({"control": np.zeros(T)}, r"control must have shape \[101, size\]"),
        ({"v": np.full((T, 1), np.nan)}, "v is not finite at sample 0"),
        ({"q": [["left"]] * T}, "q must be an array of numbers"),
    ],
)
def test_bad_arrays_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        recording(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": np.zeros((T, 2))}, "q must have nq = 1 columns for the robot 'pendulum', got 2"),
        ({"control": np.zeros((T, 0))}, "control must have nu = 1 columns"),
        ({"time": TIME**2}, r"samples must be evenly spaced.*--resample 0.01"),
    ],
)
def test_recordings_must_fit_the_robot(changes: dict[str, object], message: str, pendulum: Model) -> None:
    with pytest.raises(InputError, match=message):
        cut(pendulum, [recording(**changes)], 0.5, 0.1)


def test_files_round_trip(tmp_path: Path) -> None:
    saved = recording(v=None, q=TIME[:, None])
    saved.save(tmp_path / "data.npz")
    read = read_recording(tmp_path / "data.npz")
    assert read.v is None
    np.testing.assert_array_equal(read.q, saved.q)
    assert read.name == "data.npz"


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("not an archive", encoding="utf-8")
    np.savez(tmp_path / "partial.npz", time=TIME, q=np.zeros((T, 1)))
    np.save(tmp_path / "single.npy", TIME)
    for name, message in (
        ("text.npz", "cannot read"),
        ("missing.npz", "cannot read"),
        ("partial.npz", "lacks control; it has the arrays: time, q"),
        ("single.npy", "holds one array"),
    ):
        with pytest.raises(InputError, match=message):
            read_recording(tmp_path / name)


def test_resampling_interpolates_motion_and_holds_controls() -> None:
    uneven = recording(time=TIME**2, q=(TIME**2)[:, None], control=np.arange(T)[:, None])
    even = uneven.resampled(0.004)
    assert even.even
    assert not uneven.even
    np.testing.assert_allclose(even.q[:, 0], even.time, atol=1e-12)
    acting = np.floor(np.sqrt(even.time) * 100.0 + 1e-6)
    np.testing.assert_array_equal(even.control[:, 0], acting)


def test_resampling_keeps_rotations_whose_quaternions_flip(free: Model) -> None:
    half = 0.5 * 3.0 * TIME
    q = np.zeros((T, 7))
    q[:, 3], q[:, 5] = np.cos(half), np.sin(half)
    q[50:, 3:] *= -1.0  # the same rotation
    fine = recording(q=q, v=None, control=np.zeros((T, 0))).resampled(0.003, free)
    turned = 2.0 * np.arctan2(np.abs(fine.q[:, 5]), np.abs(fine.q[:, 3]))
    np.testing.assert_allclose(turned, 3.0 * fine.time, atol=1e-4)
    with pytest.raises(InputError, match=r"unit quaternions in columns 3 to 6 \(joint .*, got one of length 0"):
        recording(q=0.0 * q, v=None, control=np.zeros((T, 0))).resampled(0.003, free)


def test_velocities_of_hinges_and_rotations_follow_from_positions(free: Model) -> None:
    half = 0.5 * 3.0 * TIME
    q = np.zeros((T, 7))
    q[:, 0] = np.sin(TIME)
    q[:, 3], q[:, 5] = np.cos(half), np.sin(half)
    q[50:, 3:] *= -1.0  # the same rotation
    v = estimate_velocities(free, recording(q=q, v=None, control=np.zeros((T, 0))))
    np.testing.assert_allclose(v[1:-1, 0], np.cos(TIME[1:-1]), atol=1e-4)
    np.testing.assert_allclose(v[:, 4], 3.0, atol=1e-6)
    np.testing.assert_allclose(v[:, [3, 5]], 0.0, atol=1e-12)


def test_segments_share_no_sample_and_carry_earlier_controls(pendulum: Model) -> None:
    counted = recording(q=np.arange(T)[:, None], control=np.arange(T)[:, None])
    segments = cut(pendulum, [counted, counted], seconds=0.19, max_delay=0.03)
    assert segments.steps == 19
    assert segments.count == 10
    samples = segments.measured[:5, :, 0].flatten()
    assert len(samples.unique()) == len(samples) == 100
    before = segments.controls.shape[1] - segments.steps
    assert before == 4, "three samples of delay, and one more to interpolate"
    assert segments.controls[0, :before, 0].eq(0.0).all(), "held since ever"
    first = segments.measured[2, 0, 0]
    assert segments.controls[2, before, 0] == first
    assert segments.controls[2, 0, 0] == first - before
