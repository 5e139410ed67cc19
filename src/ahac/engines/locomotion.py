"""Tracking and gait metrics of recorded episodes.

A task names what it records in `Task.signals`; the names below have a meaning here, and metrics whose signals are
missing are None:

    signals={COMMAND: command.observation, VELOCITY: observations.planar_velocity("trunk"),
             FOOT_HEIGHT: foot_height(feet), TORQUE: observations.actuator_force(),
             JOINT_MARGIN: observations.joint_margin(), PUSH: pushes.observation}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ahac.core.errors import InputError
from ahac.core.table import table_lines
from ahac.envs import FootContacts, ObsTerm

__all__ = [
    "COMMAND",
    "DISTURBED",
    "FOOT_HEIGHT",
    "JOINT_MARGIN",
    "PUSH",
    "TORQUE",
    "VELOCITY",
    "Locomotion",
    "Recording",
    "foot_height",
    "measure",
]

COMMAND = "command"
"""[3] commanded velocity (v_x, v_y) [m/s] and yaw rate [rad/s]."""
VELOCITY = "velocity"
"""[3] velocity (v_x, v_y) in the yaw frame [m/s] and yaw rate [rad/s]."""
FOOT_HEIGHT = "foot_height"
"""[feet] height of each foot's lowest point above the ground [m]."""
TORQUE = "torque"
"""[joints] forces of actuators on joints [N m]."""
JOINT_MARGIN = "joint_margin"
"""[joints] distance to the nearer joint limit [rad]."""
PUSH = "push"
"""Any numbers that are not zero while a push acts."""
DISTURBED = "disturbed"
"""[1] 1 within a second after a push or a change of the command, otherwise 0; by default it follows from COMMAND and
PUSH, and the first second of an episode counts as well."""

LIFTED, LANDED = 0.01, 0.005
"""Heights above which a foot has lifted off and below which it has landed [m]."""
AT_LIMIT = 0.01
"""Margin below which a joint is at its limit [rad]."""
RECOVERY = 1.0
"""Time after a push or a change of the command that does not count for tracking [s]."""
MOVING = 0.1
"""Norm of the command from which steps count for the gait; standing robots do not step."""


def foot_height(feet: FootContacts) -> ObsTerm:
    """Height of each foot's lowest point above the ground [m]: the signal FOOT_HEIGHT."""
    return lambda world, action: [-depth for depth in feet.depths(world)]


@dataclass(frozen=True)
class Recording:
    """What N worlds did in T steps; steps of a world are in the order of time."""

    signals: Mapping[str, np.ndarray]
    """[T, N, size] signals after each step."""
    action: np.ndarray
    """[T, N, action] actions."""
    done: np.ndarray
    """[T, N] whether the episode ended with the step."""
    terminated: np.ndarray
    """[T, N] whether the task ended it."""
    counted: np.ndarray
    """[T, N] whether the step belongs to an evaluated episode."""
    dt: float
    """Seconds per step."""


@dataclass(frozen=True, kw_only=True)
class Locomotion:
    """How well robots follow their commands, and how they walk; None where a signal is missing."""

    falls: float
    """Fraction of episodes that the task ended."""
    linear_error: float | None = None
    """RMS error of the horizontal velocity, without disturbed steps [m/s]."""
    yaw_error: float | None = None
    """RMS error of the yaw rate, without disturbed steps [rad/s]."""
    step_frequency: float | None = None
    """Lift-offs of a foot per second, mean over feet, during commands to move [Hz]."""
    foot_clearance: float | None = None
    """Median over swings of a foot's largest height [m]."""
    duty_factor: float | None = None
    """Fraction of time that a foot is on the ground, mean over feet, during commands to move."""
    duty_asymmetry: float | None = None
    """Difference of the duty factors of left and right feet, relative to their mean."""
    clearance_asymmetry: float | None = None
    """Difference of the clearances of left and right feet, relative to their mean."""
    peak_torque: float | None = None
    """Largest torque [N m]."""
    rms_torque: float | None = None
    """RMS torque over joints and steps [N m]."""
    action_rate: float
    """RMS change of an action per second [1/s]; actions are in [-1, 1]."""
    time_at_limits: float | None = None
    """Fraction of steps with a joint at its limit."""

    def rows(self) -> list[tuple[str, str]]:
        """Return name and value of each metric that is known."""
        known = [(label, unit, getattr(self, name)) for name, (label, unit) in LABELS.items()]
        return [(f"{label}{f' [{unit}]' if unit else ''}", f"{x:.3g}") for label, unit, x in known if x is not None]

    def summary(self) -> dict[str, float | None]:
        """Return all metrics as a JSON-serializable dictionary."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(table_lines(("metric", "value"), self.rows()))


LABELS = {
    "falls": ("falls", "fraction"),
    "linear_error": ("velocity error", "m/s"),
    "yaw_error": ("yaw rate error", "rad/s"),
    "step_frequency": ("step frequency", "Hz"),
    "foot_clearance": ("foot clearance", "m"),
    "duty_factor": ("duty factor", ""),
    "duty_asymmetry": ("left-right difference of duty factor", ""),
    "clearance_asymmetry": ("left-right difference of clearance", ""),
    "peak_torque": ("peak torque", "N m"),
    "rms_torque": ("RMS torque", "N m"),
    "action_rate": ("action rate", "1/s"),
    "time_at_limits": ("time at joint limits", "fraction"),
}
"""Label and unit of each metric in tables."""


def measure(recording: Recording, left: Sequence[int] | None = None, right: Sequence[int] | None = None) -> Locomotion:
    """Return the metrics of a recording.

    Args:
        recording: Recorded episodes.
        left: Indices of the left feet; by default those with even indices, if the number of feet is even.
        right: Indices of the right feet; by default those with odd indices.
    """
    signals, counted = recording.signals, recording.counted
    _check_sizes(signals)
    episodes = int((recording.done & counted).sum())
    found: dict[str, float | None] = {}
    if COMMAND in signals and VELOCITY in signals:
        used = counted & ~_disturbed(recording)
        error = (signals[VELOCITY] - signals[COMMAND])[used]
        found["linear_error"] = _rms(np.linalg.norm(error[:, :2], axis=1))
        found["yaw_error"] = _rms(error[:, 2])
    if FOOT_HEIGHT in signals:
        found |= _gait(recording, left, right)
    if TORQUE in signals:
        torques = signals[TORQUE][counted]
        found["peak_torque"] = float(np.abs(torques).max()) if torques.size else None
        found["rms_torque"] = _rms(torques)
    if JOINT_MARGIN in signals:
        nearest = signals[JOINT_MARGIN].min(axis=-1)[counted]
        found["time_at_limits"] = float((nearest < AT_LIMIT).mean()) if nearest.size else None
    within = counted[1:] & ~recording.done[:-1]
    change = np.diff(np.clip(recording.action, -1.0, 1.0), axis=0)[within]
    return Locomotion(
        falls=float((recording.terminated & counted).sum()) / max(episodes, 1),
        action_rate=(_rms(change) or 0.0) / recording.dt,
        **found,
    )


def _disturbed(recording: Recording) -> np.ndarray:
    """Return which steps do not count for tracking [T, N]."""
    signals = recording.signals
    if DISTURBED in signals:
        return signals[DISTURBED][..., 0] > 0.5
    begins = np.ones(recording.done.shape, dtype=bool)
    begins[1:] = recording.done[:-1] | np.any(np.diff(signals[COMMAND], axis=0) != 0.0, axis=-1)
    if PUSH in signals:
        begins |= np.any(signals[PUSH] != 0.0, axis=-1)
    rows = np.arange(len(begins))[:, None]
    latest = np.maximum.accumulate(np.where(begins, rows, 0), axis=0)
    return (rows - latest) * recording.dt < RECOVERY


def _gait(recording: Recording, left: Sequence[int] | None, right: Sequence[int] | None) -> dict[str, float | None]:
    """Return the metrics of feet."""
    heights = recording.signals[FOOT_HEIGHT]
    feet = heights.shape[-1]
    moving = recording.counted
    if COMMAND in recording.signals:
        moving = moving & (np.linalg.norm(recording.signals[COMMAND], axis=-1) >= MOVING)
    in_air = _in_air(heights, recording.done)
    begins = np.zeros_like(in_air)
    begins[1:] = in_air[1:] & ~in_air[:-1] & ~recording.done[:-1, :, None]
    seconds = moving.sum() * recording.dt
    frequency = (begins & moving[..., None]).sum(axis=(0, 1)) / seconds if seconds else np.full(feet, np.nan)
    duty = (~in_air)[moving].mean(axis=0) if moving.any() else np.full(feet, np.nan)
    peaks = _peaks(heights, in_air, begins, recording.done, recording.counted)
    clearance = np.array([np.median(own) if own else np.nan for own in peaks])
    swings = [peak for own in peaks for peak in own]
    found = {
        "step_frequency": _known(frequency.mean()),
        "duty_factor": _known(duty.mean()),
        "foot_clearance": float(np.median(swings)) if swings else None,
    }
    sides = _sides(feet, left, right)
    if sides is not None:
        found["duty_asymmetry"] = _relative_difference(*(float(np.mean(duty[side])) for side in sides))
        found["clearance_asymmetry"] = _relative_difference(*(float(np.mean(clearance[s])) for s in sides))
    return found


def _in_air(heights: np.ndarray, done: np.ndarray) -> np.ndarray:
    """Return whether feet are in the air [T, N, feet]: from lifting above one height to landing below another."""
    result = np.zeros(heights.shape, dtype=bool)
    result[0] = heights[0] > LIFTED
    for t in range(1, len(heights)):
        before = result[t - 1] & ~done[t - 1][:, None]  # a new episode begins on the ground unless it begins high
        result[t] = np.where(before, heights[t] >= LANDED, heights[t] > LIFTED)
    return result


def _peaks(
    heights: np.ndarray, in_air: np.ndarray, begins: np.ndarray, done: np.ndarray, counted: np.ndarray
) -> list[list[float]]:
    """Return the largest height of every swing of each foot that begins and ends within an episode."""
    peaks: list[list[float]] = [[] for _ in range(heights.shape[-1])]
    for world, foot in np.ndindex(heights.shape[1:]):
        for start in np.flatnonzero(begins[:, world, foot]):
            landed = np.flatnonzero(~in_air[start:, world, foot])
            end = start + int(landed[0]) if len(landed) else len(heights)
            if len(landed) and not done[start:end, world].any() and counted[start, world]:
                peaks[foot].append(float(heights[start:end, world, foot].max()))
    return peaks


def _sides(feet: int, left: Sequence[int] | None, right: Sequence[int] | None) -> tuple[list[int], list[int]] | None:
    if (left is None) != (right is None):
        raise InputError(f"give the left and the right feet, or neither; got left={left!r}, right={right!r}")
    if left is not None and right is not None:
        return list(left), list(right)
    return (list(range(0, feet, 2)), list(range(1, feet, 2))) if feet % 2 == 0 else None


def _check_sizes(signals: Mapping[str, np.ndarray]) -> None:
    for name, size in ((COMMAND, 3), (VELOCITY, 3), (DISTURBED, 1)):
        if name in signals and signals[name].shape[-1] != size:
            raise InputError(f"signal {name!r} must have {size} numbers, got {signals[name].shape[-1]}")


def _rms(values: np.ndarray) -> float | None:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else None


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _relative_difference(a: float, b: float) -> float | None:
    mean = 0.5 * (a + b)
    return _known(abs(a - b) / mean) if mean else None
