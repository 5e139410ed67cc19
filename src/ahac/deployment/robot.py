"""What a robot needs to know to follow a policy: actuators, joints, stance, gains."""

from __future__ import annotations

from typing import Any

from ahac.envs.components.delays import ActionDelay
from ahac.envs.resets import NoisyReset
from ahac.envs.root import is_floating
from ahac.envs.task import Task
from ahac.sim import Actuator, Joint, JointKind, Model

__all__ = [
    "action_delay",
    "control_ranges",
    "describe_actuators",
    "describe_joints",
    "describe_root",
    "driven_model",
    "limb_joints",
]

UNITS = {JointKind.HINGE: ("rad", "N m"), JointKind.SLIDE: ("m", "N")}
"""Units of position and force."""


def driven_model(task: Task) -> Model:
    """Return the task's model with actuators in physical units, before actions in [-1, 1] took their place."""
    assert task.rescaled is not None, "a task sets this when it is created"
    given = task.rescaled.given
    return given if task.actions is None else task.actions(given, task.reset)


def action_delay(task: Task) -> ActionDelay | None:
    """Return the delay through which the task passes actions on to the actuators; None if there is none."""
    owner = getattr(task.control, "__self__", None)
    return owner if isinstance(owner, ActionDelay) else None


def control_ranges(task: Task) -> list[tuple[float, float]] | None:
    """Return the controls of each actuator at actions −1 and 1; None if the task computes controls on its own."""
    if task.control is not None and action_delay(task) is None:
        return None
    return [actuator.control_range or (-1.0, 1.0) for actuator in driven_model(task).actuators]


def describe_actuators(task: Task) -> list[dict[str, Any]]:
    """Describe the actuators in the order of the actions."""
    model = driven_model(task)
    return [_describe_actuator(model, actuator) for actuator in model.actuators]


def _describe_actuator(model: Model, actuator: Actuator) -> dict[str, Any]:
    low, high = actuator.control_range or (-1.0, 1.0)
    by_dof = {joint.v: joint for joint in model.joints if len(joint.dofs) == 1}
    joint = by_dof.get(actuator.dofs[0][0]) if len(actuator.dofs) == 1 else None
    position, force = (None, None) if joint is None else UNITS[joint.kind]
    kind = _kind(actuator)
    servo, gear = kind == "position", None if joint is None else actuator.dofs[0][1]
    if not servo:  # the control is a torque or force only where nothing multiplies it
        position = force if kind == "motor" and gear is not None and gear * actuator.gain == 1.0 else None
    return {
        "name": actuator.name,
        "joint": None if joint is None else joint.name,
        "kind": kind,
        "gear": gear,
        "middle": 0.5 * (low + high),
        "scale": 0.5 * (high - low),
        "control_range": [low, high],
        "kp": actuator.gain if servo else None,
        "kd": -actuator.bias[2] if servo else None,
        "gain": actuator.gain if actuator.is_linear else None,
        "bias": list(actuator.bias) if actuator.is_linear else None,
        "force_range": _pair(actuator.force_range),
        "joint_force_range": None if joint is None else _pair(joint.force_range),
        "control_unit": position,
        "force_unit": force,
    }


def _kind(actuator: Actuator) -> str:
    """Return "position" for kp · (control − length) − kd · speed, "motor" for gain · control, otherwise "other"."""
    constant, by_length, by_speed = actuator.bias
    if not actuator.is_linear or constant != 0.0:
        return "other"
    if actuator.gain == -by_length and actuator.gain > 0.0:
        return "position"
    return "motor" if by_length == by_speed == 0.0 else "other"


def describe_joints(task: Task) -> list[dict[str, Any]]:
    """Describe the hinges and slides, except those of a floating base, in the order of the model."""
    model, stance = task.model, _stance(task)
    return [
        {
            "name": joint.name,
            "kind": joint.kind.name.lower(),
            "stance": stance[joint.q],
            "range": _pair(joint.range),
            "armature": model.armature[joint.v],
            "damping": model.damping[joint.v],
            "unit": UNITS[joint.kind][0],
        }
        for joint in limb_joints(model)
        if joint.kind in UNITS
    ]


def limb_joints(model: Model) -> list[Joint]:
    """Return all joints except those of floating bases."""
    return [joint for link in model.links if not is_floating(link.joints) for joint in link.joints]


def describe_root(task: Task) -> dict[str, Any] | None:
    """Describe the floating base around whose pose episodes begin; None if the robot has none."""
    link, stance = task.model.links[0], _stance(task)
    if not is_floating(link.joints):
        return None
    first, last = link.joints[0].q, link.joints[-1].q
    return {"body": link.name, "position": stance[first : first + 3], "quaternion": stance[last : last + 4]}


def _stance(task: Task) -> list[float]:
    return task.reset.stance(task.model) if isinstance(task.reset, NoisyReset) else list(task.model.rest_q)


def _pair(values: tuple[float, float] | None) -> list[float] | None:
    return None if values is None else [float(value) for value in values]
