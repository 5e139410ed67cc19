"""Metrics of synthetic gaits with known answers."""

import json

import numpy as np
import pytest

from ahac.engines.locomotion import (
    COMMAND,
    DISTURBED,
    FOOT_HEIGHT,
    JOINT_MARGIN,
    PUSH,
    TORQUE,
    VELOCITY,
    Locomotion,
    Recording,
    measure,
)
from ahac.sim import InputError

DT, STEPS, WORLDS = 0.02, 500, 2
ONE_STEP = DT * 2.0
"""Heights are sampled: a phase of a gait of 2 Hz is known to a step, as a part of a period."""


def recording(signals: dict[str, np.ndarray], **changes: np.ndarray) -> Recording:
    shape = (STEPS, WORLDS)
    settings = {
        "action": np.zeros((*shape, 2)),
        "done": np.zeros(shape, dtype=bool),
        "terminated": np.zeros(shape, dtype=bool),
        "counted": np.ones(shape, dtype=bool),
    }
    return Recording(signals=signals, **{**settings, **changes}, dt=DT)


def gait(frequency: float, duty: tuple[float, ...], clearance: tuple[float, ...]) -> np.ndarray:
    """Feet that are on the ground for a fraction of each period, and swing along half a sine; noise of 2 mm."""
    time = np.arange(STEPS)[:, None, None] * DT
    phase = (time * frequency + np.arange(len(duty)) / len(duty)) % 1.0
    swing = np.clip((phase - np.array(duty)) / (1.0 - np.array(duty)), 0.0, None)
    noise = np.random.default_rng(0).uniform(-0.002, 0.002, (STEPS, WORLDS, len(duty)))
    return np.where(swing > 0.0, np.array(clearance) * np.sin(np.pi * swing), 0.0) + noise


def test_a_symmetric_gait() -> None:
    found = measure(recording({FOOT_HEIGHT: gait(2.0, (0.6,) * 4, (0.08,) * 4)}))
    assert found.step_frequency == pytest.approx(2.0, rel=0.1)
    assert found.foot_clearance == pytest.approx(0.08, abs=0.003)
    assert found.duty_factor == pytest.approx(0.6, abs=2 * ONE_STEP)  # the start of a swing counts as ground
    assert found.duty_asymmetry is not None
    assert found.duty_asymmetry < ONE_STEP
    assert found.clearance_asymmetry is not None
    assert found.clearance_asymmetry < 0.05


def test_a_limp() -> None:
    heights = gait(2.0, (0.5, 0.75), (0.09, 0.03))
    found = measure(recording({FOOT_HEIGHT: heights}))
    assert found.clearance_asymmetry == pytest.approx(0.06 / 0.06, abs=0.1)
    assert found.duty_asymmetry == pytest.approx(0.25 / 0.625, abs=0.15)
    swapped = measure(recording({FOOT_HEIGHT: heights}), left=[1], right=[0])
    assert swapped.duty_asymmetry == found.duty_asymmetry
    with pytest.raises(InputError, match="left and the right"):
        measure(recording({FOOT_HEIGHT: heights}), left=[0])


def test_noise_at_the_threshold_is_no_step() -> None:
    heights = np.random.default_rng(0).uniform(0.006, 0.0099, (STEPS, WORLDS, 2))
    found = measure(recording({FOOT_HEIGHT: heights}))
    assert found.step_frequency == 0.0
    assert found.duty_factor == 1.0
    assert found.foot_clearance is None


def test_resets_are_no_steps() -> None:
    heights = np.zeros((STEPS, WORLDS, 1))
    heights[100:] = 0.05  # in the air from the first step of the second episode
    done = np.zeros((STEPS, WORLDS), dtype=bool)
    done[99] = True
    found = measure(recording({FOOT_HEIGHT: heights}, done=done))
    assert found.step_frequency == 0.0
    assert found.duty_asymmetry is None


def test_tracking_leaves_out_disturbed_and_uncounted_steps() -> None:
    command, velocity = np.zeros((STEPS, WORLDS, 3)), np.zeros((STEPS, WORLDS, 3))
    velocity[..., 0], velocity[..., 1], velocity[..., 2] = 0.3, -0.4, 0.2
    disturbed = np.zeros((STEPS, WORLDS, 1))
    velocity[:50], disturbed[:50] = 9.0, 1.0
    velocity[-50:] = 5.0
    counted = np.ones((STEPS, WORLDS), dtype=bool)
    counted[-50:] = False
    found = measure(recording({COMMAND: command, VELOCITY: velocity, DISTURBED: disturbed}, counted=counted))
    assert found.linear_error == pytest.approx(0.5)
    assert found.yaw_error == pytest.approx(0.2)


def test_seconds_after_changes_pushes_and_resets_are_disturbed() -> None:
    command, velocity, push = (np.zeros((STEPS, WORLDS, size)) for size in (3, 3, 2))
    done = np.zeros((STEPS, WORLDS), dtype=bool)
    second = round(1.0 / DT)
    command[200:] = 1.0
    velocity[200:] = 1.0
    push[300, :, 0] = 40.0
    done[399] = True
    for start in (0, 200, 300, 400):
        velocity[start : start + second, :, 0] += 3.0
    recorded = {COMMAND: command, VELOCITY: velocity, PUSH: push}
    assert measure(recording(recorded, done=done)).linear_error == pytest.approx(0.0)
    velocity[200 + second, :, 0] += 3.0
    error = measure(recording(recorded, done=done)).linear_error
    assert error == pytest.approx(3.0 / np.sqrt(STEPS - 4 * second))


def test_standing_does_not_count_for_the_gait() -> None:
    command = np.zeros((STEPS, WORLDS, 3))
    command[: STEPS // 2, :, 0] = 1.0
    heights = gait(2.0, (0.6, 0.6), (0.08, 0.08))
    heights[STEPS // 2 :] = 0.0
    found = measure(recording({COMMAND: command, VELOCITY: command, FOOT_HEIGHT: heights}))
    assert found.step_frequency == pytest.approx(2.0, rel=0.1)


def test_torques_limits_falls_and_actions() -> None:
    torque = np.full((STEPS, WORLDS, 2), 3.0)
    torque[7, 1, 0] = -20.0
    margin = np.full((STEPS, WORLDS, 2), 0.5)
    margin[: STEPS // 4, 0, 1] = 0.001
    done = np.zeros((STEPS, WORLDS), dtype=bool)
    done[[199, 399]] = True
    terminated = done.copy()
    terminated[:, 1] = False
    action = np.zeros((STEPS, WORLDS, 1))
    action[::2] = 0.5
    action[200] = -40.0  # clipped, and the first of an episode
    action[201] = -1.0
    found = measure(recording({TORQUE: torque, JOINT_MARGIN: margin}, done=done, terminated=terminated, action=action))
    assert found.peak_torque == 20.0
    assert found.rms_torque == pytest.approx(3.0, rel=0.05)
    assert found.time_at_limits == pytest.approx(1.0 / 8.0)
    assert found.falls == 0.5
    assert found.action_rate == pytest.approx(0.5 / DT, rel=0.02)


def test_results_are_tables_and_json() -> None:
    found = measure(recording({}))
    assert found == Locomotion(falls=0.0, action_rate=0.0)
    assert str(found).splitlines()[1].split() == ["falls", "[fraction]", "0"]
    assert json.loads(json.dumps(found.summary()))["linear_error"] is None


def test_signals_of_other_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="'command' must have 3 numbers, got 2"):
        measure(recording({COMMAND: np.zeros((STEPS, WORLDS, 2)), VELOCITY: np.zeros((STEPS, WORLDS, 3))}))
