"""Recorded motions of a robot: positions, velocities and controls over time, from arrays or .npz files."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ahac.core.checks import check_positive
from ahac.core.errors import InputError
from ahac.core.files import atomic_write
from ahac.sim import JointKind, Model

__all__ = ["Recording", "continuous_positions", "estimate_velocities", "read_recording", "same_dt"]

JITTER = 1e-3
"""Largest deviation of a time step from their mean, relative to it, that counts as even sampling."""

NO_ACTUATORS = (
    ". Its file has no actuators: add servos with --servos KP KV, or load_model(file, motors={'*': Servo(...)})"
)
"""How to fix controls of a robot without actuators."""

FIELDS = ("time", "q", "v", "control")


@dataclass(frozen=True, eq=False)
class Recording:
    """T samples of a robot's motion; the arrays are converted to float64 and checked."""

    time: np.ndarray
    """[T] times [s], increasing."""
    q: np.ndarray
    """[T, nq] measured positions, as MuJoCo's qpos."""
    control: np.ndarray
    """[T, nu] controls; row k acts from time k to time k + 1, plus the actuator's delay."""
    v: np.ndarray | None = None
    """[T, nv] measured velocities, as MuJoCo's qvel; None if they were not measured."""
    name: str = "recording"
    """Name in messages."""

    def __post_init__(self) -> None:
        for field in FIELDS:
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, self._numbers(field, value))
        if self.time.ndim != 1 or len(self.time) < 2:
            raise InputError(f"{self.name}: time must have shape [T] with T > 1, got {list(self.time.shape)}")
        for field in FIELDS[1:]:
            value = getattr(self, field)
            if value is not None and (value.ndim != 2 or len(value) != len(self.time)):
                raise InputError(
                    f"{self.name}: {field} must have shape [{len(self.time)}, size], one row for each time, "
                    f"got {list(value.shape)}"
                )
        steps = np.diff(self.time)
        if steps.min() <= 0.0:
            k = int(steps.argmin())
            raise InputError(
                f"{self.name}: time must increase, but sample {k + 1} is at {self.time[k + 1]:g} s after "
                f"{self.time[k]:g} s; sort the samples and remove duplicates"
            )

    def _numbers(self, field: str, value: object) -> np.ndarray:
        try:
            array = np.array(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.name}: {field} must be an array of numbers, got {type(value).__name__}") from error
        if not np.isfinite(array).all():
            row = int(np.argwhere(~np.isfinite(array))[0][0])
            raise InputError(
                f"{self.name}: {field} is not finite at sample {row}; cut the recording there or interpolate"
            )
        return array

    @property
    def dt(self) -> float:
        """Mean time between samples [s]."""
        return float((self.time[-1] - self.time[0]) / (len(self.time) - 1))

    @property
    def even(self) -> bool:
        """Whether the samples are evenly spaced."""
        return bool(np.abs(np.diff(self.time) - self.dt).max() <= JITTER * self.dt)

    def resampled(self, dt: float, model: Model | None = None) -> Recording:
        """Return samples every `dt` seconds: positions and velocities interpolated, controls held.

        Args:
            dt: Time between samples [s].
            model: The robot. Without it, quaternions must not flip their sign from sample to sample.
        """
        check_positive("dt", dt)
        if dt > self.time[-1] - self.time[0]:
            raise InputError(
                f"{self.name}: dt must be shorter than the recording, {self.time[-1] - self.time[0]:g} s, got {dt:g} s"
            )
        time = np.arange(self.time[0], self.time[-1] + 1e-9 * dt, dt)
        held = self.control[(np.searchsorted(self.time, time + 1e-9 * dt, side="right") - 1).clip(0)]
        q = _interpolated(time, self.time, self.q if model is None else continuous_positions(model, self))
        v = None if self.v is None else _interpolated(time, self.time, self.v)
        return Recording(time, q, held, v, self.name)

    def check(self, model: Model) -> None:
        """Raise an error if the recording does not fit a model, or is not evenly sampled."""
        self.check_sizes(model)
        if not self.even:
            steps = np.diff(self.time)
            raise InputError(
                f"{self.name}: samples must be evenly spaced, but are {steps.min():.3g} to {steps.max():.3g} s apart; "
                f"resample them: --resample {self.dt:.3g}, or recording.resampled({self.dt:.3g})"
            )

    def check_sizes(self, model: Model) -> None:
        """Raise an error if the arrays of the recording do not fit a model."""
        for field, size, what in (("q", model.nq, "nq"), ("v", model.nv, "nv"), ("control", model.nu, "nu")):
            value = getattr(self, field)
            if value is not None and value.shape[1] != size:
                fix = NO_ACTUATORS if what == "nu" and size == 0 else ""
                raise InputError(
                    f"{self.name}: {field} must have {what} = {size} columns for the robot {model.name!r}, "
                    f"got {value.shape[1]}{fix}"
                )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an .npz file that `read_recording` reads."""
        arrays = {field: getattr(self, field) for field in FIELDS if getattr(self, field) is not None}
        if Path(path).suffix != ".npz":
            raise InputError(f"a recording is saved as .npz, got {str(path)!r}")
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Read an .npz file with the arrays time [T], q [T, nq], control [T, nu] and, if measured, v [T, nv]."""
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise InputError(f"{str(path)!r} holds one array; expected an .npz file with time, q and control")
        with file:
            found = ", ".join(file) or "none"
            arrays = {name: file[name] for name in FIELDS if name in file}
    except InputError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read {str(path)!r} as an .npz file: {error}") from error
    missing = [name for name in ("time", "q", "control") if name not in arrays]
    if missing:
        raise InputError(f"{str(path)!r} lacks {', '.join(missing)}; it has the arrays: {found}")
    return Recording(**arrays, name=Path(path).name)


def _interpolated(time: np.ndarray, times: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.stack([np.interp(time, times, column) for column in rows.T], axis=1)


def estimate_velocities(model: Model, recording: Recording) -> np.ndarray:
    """Return velocities [T, nv] as central differences of the positions."""
    q, dt = recording.q, recording.dt
    v = np.zeros((len(q), model.nv))
    for joint in model.joints:
        if joint.kind is JointKind.BALL:
            v[:, joint.v : joint.v + 3] = _angular_velocities(q[:, joint.q : joint.q + 4], dt)
        else:
            v[:, joint.v] = np.gradient(q[:, joint.q], dt)
    return v


def _angular_velocities(quaternions: np.ndarray, dt: float) -> np.ndarray:
    """Return angular velocities in the joint's own axes, from quaternions (w, x, y, z)."""
    unit = quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)
    before, after = unit[[0, *range(len(unit) - 1)]], unit[[*range(1, len(unit)), -1]]
    w = (before * after).sum(axis=1)
    xyz = before[:, :1] * after[:, 1:] - after[:, :1] * before[:, 1:] - np.cross(before[:, 1:], after[:, 1:])
    sign = np.where(w < 0.0, -1.0, 1.0)[:, None]
    length = np.linalg.norm(xyz, axis=1, keepdims=True)
    angle = 2.0 * np.arctan2(length, np.abs(w)[:, None])
    steps = np.full((len(unit), 1), 2.0)
    steps[[0, -1]] = 1.0
    return sign * xyz * np.where(length > 1e-12, angle / np.maximum(length, 1e-12), 2.0) / (steps * dt)


def continuous_positions(model: Model, recording: Recording) -> np.ndarray:
    """Return the positions [T, nq] with unit quaternions whose signs do not flip from sample to sample."""
    recording.check_sizes(model)
    q = recording.q.copy()
    for joint in model.joints:
        if joint.kind is JointKind.BALL:
            columns = slice(joint.q, joint.q + 4)
            norms = np.linalg.norm(q[:, columns], axis=1, keepdims=True)
            if not norms.min() > 0.5:
                raise InputError(
                    f"{recording.name}: q must hold unit quaternions in columns {joint.q} to {joint.q + 3} (joint "
                    f"{joint.name!r}), got one of length {norms.min():.2g}"
                )
            q[:, columns] = _sign_continuous(q[:, columns] / norms)
    return q


def _sign_continuous(quaternions: np.ndarray) -> np.ndarray:
    """Return the same rotations, with signs such that consecutive quaternions are close."""
    flips = np.sign((quaternions[1:] * quaternions[:-1]).sum(axis=1))
    return quaternions * np.concatenate([[1.0], np.cumprod(np.where(flips == 0.0, 1.0, flips))])[:, None]


def same_dt(recordings: Sequence[Recording]) -> float:
    """Return the time between samples, which all recordings must share."""
    dt = recordings[0].dt
    for recording in recordings:
        if abs(recording.dt - dt) > JITTER * dt:
            raise InputError(
                f"all recordings must have the same time between samples: {recordings[0].name} has {dt:g} s, "
                f"{recording.name} has {recording.dt:g} s; resample them: --resample {dt:.3g}"
            )
    return dt
