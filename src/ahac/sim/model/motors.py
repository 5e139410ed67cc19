# pyright: reportAttributeAccessIssue=false
"""Motors and servos that replace the actuators of a model file; a URDF has no actuators at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import mujoco
import numpy as np

from ahac.core.errors import ModelError
from ahac.sim.model.types import require_non_negative

__all__ = ["Drive", "Motor", "Servo", "replace_actuators"]

SINGLE = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


@dataclass(frozen=True, kw_only=True)
class Motor:
    """A motor on a joint: its strength, and the inertia and damping that its rotor and gears add."""

    strength: float
    """Torque [N m] or force [N] at control 1; controls are in [-1, 1]."""
    armature: float = 0.0
    """Added inertia [kg m²] or [kg]."""
    damping: float = 0.0
    """Added damping [N m s/rad] or [N s/m]."""

    def __post_init__(self) -> None:
        require_non_negative(self)


@dataclass(frozen=True, kw_only=True)
class Servo:
    """A position servo on a joint: stiffness · (target − position) − damping · speed, clipped to ± strength.

    Its control is the target [rad] or [m]. In a task, action 0 is the middle of the range of targets.
    """

    stiffness: float
    """Proportional gain kp [N m/rad] or [N/m]."""
    damping: float
    """Derivative gain kv [N m s/rad] or [N s/m]."""
    strength: float | None = None
    """Largest torque [N m] or force [N]; unlimited if None."""
    armature: float = 0.0
    """Added inertia [kg m²] or [kg]."""
    stance: float = 0.0
    """Middle of the range of targets [rad] or [m]; used only with `reach`."""
    reach: float | None = None
    """Targets are between stance − reach and stance + reach. If None, they span the joint's range, and `stance` is
    ignored."""

    def __post_init__(self) -> None:
        if not isinstance(self.stance, float | int) or not math.isfinite(self.stance):
            raise ModelError(f"Servo.stance must be a finite number, got {self.stance!r}")
        require_non_negative(replace(self, stance=abs(self.stance)) if self.stance < 0 else self)


Drive = Motor | Servo
"""What drives a joint."""


def replace_actuators(spec: mujoco.MjSpec, motors: Drive | Mapping[str, Drive]) -> None:
    """Replace the specification's actuators with motors and servos on its joints."""
    pairs = _drive_of_each_joint(spec, motors)
    # Sensors are not simulated, and one may refer to an actuator that is removed.
    for element in [*spec.sensors, *spec.actuators]:
        spec.delete(element)
    for joint, drive in pairs:
        joint.armature += drive.armature
        added = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        # Override the file's defaults for actuators.
        added.set_to_motor()
        added.forcelimited = added.actlimited = False
        added.ctrllimited = True
        if isinstance(drive, Motor):
            joint.damping = _increase_damping(joint.damping, drive.damping)
            added.gear = [drive.strength, 0.0, 0.0, 0.0, 0.0, 0.0]
            added.ctrlrange = [-1.0, 1.0]
        else:
            _set_to_servo(added, drive, _targets(spec, joint, drive))


def _set_to_servo(actuator: mujoco.MjsActuator, servo: Servo, targets: tuple[float, float]) -> None:
    actuator.gear = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    actuator.gaintype = mujoco.mjtGain.mjGAIN_FIXED
    actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE
    actuator.gainprm = [servo.stiffness, *[0.0] * (len(actuator.gainprm) - 1)]
    actuator.biasprm = [0.0, -servo.stiffness, -servo.damping, *[0.0] * (len(actuator.biasprm) - 3)]
    actuator.ctrlrange = list(targets)
    if servo.strength is not None:
        actuator.forcelimited = True
        actuator.forcerange = [-servo.strength, servo.strength]


def _targets(spec: mujoco.MjSpec, joint: mujoco.MjsJoint, servo: Servo) -> tuple[float, float]:
    """Return the range of targets of a servo."""
    if servo.reach is not None:
        return servo.stance - servo.reach, servo.stance + servo.reach
    low, high = (float(x) for x in joint.range)
    if not low < high:
        raise ModelError(
            f"joint {joint.name!r} has no range for the targets of its servo; set Servo(stance=..., reach=...)"
        )
    # The compiler converts angles of the file to radians, but leaves control ranges alone.
    scale = math.pi / 180.0 if spec.compiler.degree and int(joint.type) == SINGLE[0] else 1.0
    return low * scale, high * scale


def _increase_damping(damping: float | np.ndarray, by: float) -> float | np.ndarray:
    """Return increased joint damping; newer versions of MuJoCo store polynomial coefficients, the linear one first."""
    if isinstance(damping, np.ndarray):
        return np.array([damping[0] + by, *damping[1:]])
    return damping + by


def _drive_of_each_joint(
    spec: mujoco.MjSpec, motors: Drive | Mapping[str, Drive]
) -> list[tuple[mujoco.MjsJoint, Drive]]:
    """Return (joint, drive) pairs in the file's order; a single drive applies to all joints except the root body's."""
    joints = [joint for joint in spec.joints if int(joint.type) in SINGLE]
    for i, joint in enumerate(spec.joints):
        joint.name = joint.name or f"joint#{i}"
    names = [joint.name for joint in joints]
    if isinstance(motors, Drive):
        driven = [(joint, motors) for joint in joints if joint.parent.parent != spec.worldbody]
        if not driven:
            listed = ", ".join(names) or "none"
            raise ModelError(
                "a single motor applies to no joint of a root body, and this model has no others; name the joints: "
                f"motors={{name: Motor(...)}} with names from {listed}"
            )
        return driven
    if not isinstance(motors, Mapping) or not all(
        isinstance(name, str) and isinstance(motor, Drive) for name, motor in motors.items()
    ):
        raise ModelError(f"motors must be a Motor or Servo, or map joint names to Motors and Servos, got {motors!r}")
    for pattern in motors:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ModelError(f"no hinge or slide is named {pattern!r}; the model has: {', '.join(names) or 'none'}")
    pairs = [(joint, [motors[p] for p in motors if fnmatchcase(joint.name, p)]) for joint in joints]
    if ambiguous := [joint.name for joint, matches in pairs if len(matches) > 1]:
        raise ModelError(f"several motors match {', '.join(ambiguous)}: each joint must match a single name")
    return [(joint, matches[0]) for joint, matches in pairs if matches]
