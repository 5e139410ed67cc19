# pyright: reportAttributeAccessIssue=false
"""Motors that replace the actuators of a model file; a URDF has no actuators at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import mujoco
import numpy as np

from ahac.core.errors import ModelError
from ahac.sim.model.types import require_non_negative

__all__ = ["Motor", "replace_actuators"]

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


def replace_actuators(spec: mujoco.MjSpec, motors: Motor | Mapping[str, Motor]) -> None:
    """Replace the specification's actuators by motors on its joints."""
    pairs = _motor_of_each_joint(spec, motors)
    # Sensors are not simulated, and one may refer to an actuator that is removed.
    for element in [*spec.sensors, *spec.actuators]:
        spec.delete(element)
    for joint, motor in pairs:
        joint.armature += motor.armature
        joint.damping = _increase_damping(joint.damping, motor.damping)
        added = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        # Override the file's defaults for actuators.
        added.set_to_motor()
        added.gear = [motor.strength, 0.0, 0.0, 0.0, 0.0, 0.0]
        added.forcelimited = added.actlimited = False
        added.ctrllimited = True
        added.ctrlrange = [-1.0, 1.0]


def _increase_damping(damping: float | np.ndarray, by: float) -> float | np.ndarray:
    """Return increased joint damping; newer versions of MuJoCo store polynomial coefficients, the linear one first."""
    if isinstance(damping, np.ndarray):
        return np.array([damping[0] + by, *damping[1:]])
    return damping + by


def _motor_of_each_joint(
    spec: mujoco.MjSpec, motors: Motor | Mapping[str, Motor]
) -> list[tuple[mujoco.MjsJoint, Motor]]:
    """Return (joint, motor) pairs in the file's order; a single motor applies to all joints but the root body's."""
    joints = [joint for joint in spec.joints if int(joint.type) in SINGLE]
    for i, joint in enumerate(spec.joints):
        joint.name = joint.name or f"joint#{i}"
    names = [joint.name for joint in joints]
    if isinstance(motors, Motor):
        driven = [(joint, motors) for joint in joints if joint.parent.parent != spec.worldbody]
        if not driven:
            listed = ", ".join(names) or "none"
            raise ModelError(
                "a single motor applies to no joint of a root body, and this model has no others; name the joints: "
                f"motors={{name: Motor(...)}} with names from {listed}"
            )
        return driven
    if not isinstance(motors, Mapping) or not all(
        isinstance(name, str) and isinstance(motor, Motor) for name, motor in motors.items()
    ):
        raise ModelError(f"motors must be a Motor, or a mapping from joint names to Motors, got {motors!r}")
    for pattern in motors:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ModelError(f"no hinge or slide is named {pattern!r}; the model has: {', '.join(names) or 'none'}")
    pairs = [(joint, [motors[p] for p in motors if fnmatchcase(joint.name, p)]) for joint in joints]
    if ambiguous := [joint.name for joint, matches in pairs if len(matches) > 1]:
        raise ModelError(f"several motors match {', '.join(ambiguous)}: each joint must match a single name")
    return [(joint, matches[0]) for joint, matches in pairs if matches]
