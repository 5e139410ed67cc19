"""Action spaces: what an action means to a robot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from ahac.core.checks import check_finite, check_positive
from ahac.core.errors import InputError
from ahac.envs.resets import NoisyReset
from ahac.envs.task import ResetFn
from ahac.sim import Actuator, Joint, Keyframe, Model, add_armature

__all__ = ["JointTargets", "force_bounds"]

PerJoint = float | Mapping[str, float]
"""One number for all joints, or numbers by joint name, where * and ? are wildcards."""


@dataclass(frozen=True, kw_only=True)
class JointTargets:
    """Joint position targets around a stance: target = stance + scale · action, with actions in [-1, 1].

    A position servo on each joint follows the target with kp · (target − position) − kd · velocity. The servos take
    the place of all actuators of the model. The stance is the pose of the task's `NoisyReset`; with a reset of your
    own, it is the model's rest pose.

    Numbers can differ between joints: `kp={"*_hip": 20.0, "*_knee": 40.0}`.
    """

    scale: PerJoint = 0.5
    """Change of the target per unit of action [rad] or [m]."""
    kp: PerJoint | None = None
    """Proportional gains [N m/rad] or [N/m]; if neither kp nor kd is given, the model's position servos are kept."""
    kd: PerJoint | None = None
    """Derivative gains [N m s/rad] or [N s/m]."""
    joints: str | Sequence[str] = "*"
    """Names of the hinges and slides, where * and ? are wildcards. "*" alone means all joints that actuators of the
    model drive or, without actuators, all hinges and slides."""
    strength: PerJoint | None = None
    """Largest torque [N m] or force [N] of a servo. By default that of the actuator it replaces, if it has a bound.
    The file's bounds on the actuation of a joint (actuatorfrcrange) always apply."""
    armature: PerJoint | None = None
    """Inertia that is added to that of the joints [kg m²] or [kg]."""

    def __post_init__(self) -> None:
        if (self.kp is None) != (self.kd is None):
            raise InputError(
                f"JointTargets takes both gains, or neither to keep the model's servos; got kp={self.kp!r}, "
                f"kd={self.kd!r}"
            )
        checks = {"scale": check_positive, "kp": check_positive, "strength": check_positive}
        for name in ("scale", "kp", "kd", "strength", "armature"):
            value = getattr(self, name)
            for key, number in value.items() if isinstance(value, Mapping) else [("", value)]:
                if number is not None or isinstance(value, Mapping):
                    label = f"JointTargets.{name}[{key!r}]" if key else f"JointTargets.{name}"
                    checks.get(name, _check_non_negative)(label, number)

    def __call__(self, model: Model, reset: ResetFn) -> Model:
        """Return the model with these servos as its actuators; their control range is that of the targets."""
        stance = reset.stance(model) if isinstance(reset, NoisyReset) else model.rest_q
        joints = self.select(model)
        names = [joint.name for joint in joints]
        scale = _per_joint("scale", self.scale, names)
        strength = {} if self.strength is None else _per_joint("strength", self.strength, names)
        if self.kp is None or self.kd is None:
            servos = [_own_servo(model, joint) for joint in joints]
        else:
            kp, kd = _per_joint("kp", self.kp, names), _per_joint("kd", self.kd, names)
            servos = [_servo(joint, kp[joint.name], kd[joint.name], force_bounds(model, joint)) for joint in joints]
        actuators = []
        for joint, servo in zip(joints, servos, strict=True):
            middle, reach = stance[joint.q], scale[joint.name]
            bound = strength.get(joint.name)
            force_range = servo.force_range if bound is None else (-bound, bound)
            actuators.append(replace(servo, control_range=(middle - reach, middle + reach), force_range=force_range))
        model = _with_actuators(model, actuators)
        if self.armature is None:
            return model
        armature = _per_joint("armature", self.armature, names)
        return add_armature(model, {joint.v: armature[joint.name] for joint in joints})

    def select(self, model: Model) -> list[Joint]:
        """Return the joints with servos, in the order of the model."""
        single = [joint for joint in model.joints if len(joint.dofs) == 1 and not joint.spring_dofs]
        if self.joints == "*":
            driven = {k for actuator in model.actuators for k, _ in actuator.dofs}
            found = [joint for joint in single if joint.v in driven or not model.actuators]
            if not found:
                raise InputError(f"{model.name!r} has no hinge or slide to give targets to; use other actions")
            return found
        patterns = [self.joints] if isinstance(self.joints, str) else list(self.joints)
        _check_patterns("joints", patterns, [joint.name for joint in single])
        return [joint for joint in single if any(fnmatchcase(joint.name, pattern) for pattern in patterns)]


def _servo(joint: Joint, kp: float, kd: float, force_range: tuple[float, float] | None) -> Actuator:
    """Return a position servo on a joint."""
    return Actuator(
        name=joint.name,
        gain=kp,
        bias=(0.0, -kp, -kd),
        dofs=((joint.v, 1.0),),
        coordinates=((joint.q, 1.0),),
        force_range=force_range,
    )


def _own_servo(model: Model, joint: Joint) -> Actuator:
    """Return the model's position servo on a joint, with its strength, but without a gear."""
    found = _actuators_on(model, joint)
    if len(found) != 1 or not _is_servo(found[0]):
        listed = ", ".join(repr(actuator.name) for actuator in found) or "none"
        raise InputError(
            f"JointTargets without kp and kd needs one position servo on joint {joint.name!r} of {model.name!r}, "
            f"whose actuators on it are: {listed}; set kp and kd"
        )
    (own,) = found
    factor = own.strength * own.dofs[0][1] ** 2
    servo = _servo(joint, float(own.gain * factor), float(-own.bias[2] * factor), force_bounds(model, joint))
    return replace(servo, name=own.name)


def force_bounds(model: Model, joint: Joint) -> tuple[float, float] | None:
    """Return the bounds of the force that the model's actuator exerts on a joint; None if it has none."""
    found = _actuators_on(model, joint)
    if len(found) != 1:
        return None
    (actuator,) = found
    bounds = actuator.force_range
    if bounds is None and actuator.control_range is not None and actuator.is_linear and not any(actuator.bias):
        bounds = actuator.gain * actuator.control_range[0], actuator.gain * actuator.control_range[1]
    if bounds is None:
        return None
    low, high = sorted(float(actuator.strength * actuator.dofs[0][1] * bound) for bound in bounds)
    return low, high


def _actuators_on(model: Model, joint: Joint) -> list[Actuator]:
    return [actuator for actuator in model.actuators if [k for k, _ in actuator.dofs] == [joint.v]]


def _is_servo(actuator: Actuator) -> bool:
    """Return whether an actuator's force is kp · (control − length) − kd · speed."""
    constant, by_length, _ = actuator.bias
    return bool(actuator.is_linear and constant == 0.0 and by_length < 0.0 and actuator.gain == -by_length)


def _with_actuators(model: Model, actuators: Sequence[Actuator]) -> Model:
    """Return the model with servos as its actuators; in keyframes they hold the joints, as far as they reach."""

    def held(keyframe: Keyframe) -> Keyframe:
        ctrl = []
        for actuator in actuators:
            ((q, _),), (low, high) = actuator.coordinates, actuator.control_range or (0.0, 0.0)
            ctrl.append(min(max(keyframe.q[q], low), high))
        return replace(keyframe, ctrl=tuple(ctrl), act=())

    keyframes = {name: held(keyframe) for name, keyframe in model.keyframes.items()}
    return replace(model, actuators=tuple(actuators), nu=len(actuators), na=0, keyframes=keyframes)


def _per_joint(name: str, value: PerJoint, joints: Sequence[str]) -> dict[str, float]:
    """Return a number for each joint."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(joints, float(value))
    _check_patterns(name, value, joints)
    numbers: dict[str, float] = {}
    for joint in joints:
        matches = [pattern for pattern in value if fnmatchcase(joint, pattern)]
        if len(matches) != 1:
            listed = ", ".join(map(repr, matches)) or "none"
            raise InputError(
                f"JointTargets.{name} must match joint {joint!r} once, but the patterns that match it are: {listed}"
            )
        numbers[joint] = float(value[matches[0]])
    return numbers


def _check_patterns(name: str, patterns: Sequence[str] | Mapping[str, float], joints: Sequence[str]) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(joint, pattern) for joint in joints):
            raise InputError(f"JointTargets.{name} has {pattern!r}, which matches none of: {', '.join(joints)}")


def _check_non_negative(name: str, value: object) -> float:
    return check_finite(name, value, least=0.0)
