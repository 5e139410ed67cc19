# pyright: reportAttributeAccessIssue=false
"""Motors that a caller gives a robot in place of its file's actuators; a URDF has none at all."""

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
    """A motor on a joint: how strong it is, and what its rotor and gears add to the joint."""

    strength: float
    """Torque [N m] or force [N] at control 1; controls are in [-1, 1]."""
    armature: float = 0.0
    """Inertia that it adds [kg m²] or [kg]."""
    damping: float = 0.0
    """Damping that it adds [N m s/rad] or [N s/m]."""

    def __post_init__(self) -> None:
        require_non_negative(self)


def replace_actuators(spec: mujoco.MjSpec, motors: Motor | Mapping[str, Motor]) -> None:
    """Take the specification's actuators away and drive its joints by motors instead."""
    chosen = _motor_of_each_joint(spec, motors)
    # Sensors are not simulated, and one may look at an actuator that goes.
    for element in [*spec.sensors, *spec.actuators]:
        spec.delete(element)
    for joint, motor in chosen:
        joint.armature += motor.armature
        joint.damping = _raised(joint.damping, motor.damping)
        added = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        # The file's default for actuators may be anything.
        added.set_to_motor()
        added.gear = [motor.strength, 0.0, 0.0, 0.0, 0.0, 0.0]
        added.forcelimited = added.actlimited = False
        added.ctrllimited = True
        added.ctrlrange = [-1.0, 1.0]


def _raised(damping: float | np.ndarray, by: float) -> float | np.ndarray:
    """A joint's damping and more; newer versions of MuJoCo hold a polynomial's coefficients, linear one first."""
    if isinstance(damping, np.ndarray):
        return np.array([damping[0] + by, *damping[1:]])
    return damping + by


def _motor_of_each_joint(
    spec: mujoco.MjSpec, motors: Motor | Mapping[str, Motor]
) -> list[tuple[mujoco.MjsJoint, Motor]]:
    """Joints and their motors, in the file's order; one motor for all means all joints but the root's own."""
    joints = [joint for joint in spec.joints if int(joint.type) in SINGLE]
    for i, joint in enumerate(spec.joints):
        joint.name = joint.name or f"joint#{i}"
    known = [joint.name for joint in joints]
    if isinstance(motors, Motor):
        driven = [(joint, motors) for joint in joints if joint.parent.parent != spec.worldbody]
        if not driven:
            names = ", ".join(known) or "none"
            raise ModelError(f"one motor for all drives no joint of a root body; name them: motors={{...}} of {names}")
        return driven
    if not isinstance(motors, Mapping) or not all(
        isinstance(name, str) and isinstance(motor, Motor) for name, motor in motors.items()
    ):
        raise ModelError(f"motors must be a Motor, or a mapping from joint names to Motors, got {motors!r}")
    for pattern in motors:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise ModelError(f"no hinge or slide is named {pattern!r}; the model has: {', '.join(known) or 'none'}")
    pairs = [(joint, [motors[p] for p in motors if fnmatchcase(joint.name, p)]) for joint in joints]
    if twice := [joint.name for joint, found in pairs if len(found) > 1]:
        raise ModelError(f"more than one motor is meant for {', '.join(twice)}: let each joint match one name")
    return [(joint, found[0]) for joint, found in pairs if found]
