"""Any robot as a task: run forward, keep upright, waste nothing.

model = load_model("robot.xml", motors=Motor(strength=30.0), ground=True)
env = ahac.make(RobotTask(model=model, torso="trunk", terminate_below=0.3), num_envs=64)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ahac.core.checks import finite_number
from ahac.core.errors import InputError
from ahac.envs import senses, shaping
from ahac.envs.root import find_root
from ahac.envs.starts import NoisyStart
from ahac.envs.task import Sense, Start, Task, Term
from ahac.sim import JointKind, Model, Real, World

__all__ = ["RobotTask", "above", "running_rewards", "running_senses"]

RATE_SCALE = 0.1
"""Of observed joint rates: they are seen in units of 10 rad/s."""

NEAR_REST = NoisyStart(keyframe=None, place=0.05, turn=math.pi / 24, joints=0.05, velocity=0.1)


@dataclass(frozen=True, kw_only=True)
class RobotTask(Task):
    """A robot that shall run along x. What is left out is chosen to suit a walking machine of any shape."""

    name: str = ""
    """By default the model's."""
    torso: str
    """Name of the body that shall run."""
    terminate_below: float | None = None
    """An episode ends when the torso's origin is lower than this [m]."""
    observation: Mapping[str, Sense] = field(default_factory=dict)
    """By default `running_senses`."""
    reward: Mapping[str, Term] = field(default_factory=dict)
    """By default `running_rewards`."""
    start: Start = NEAR_REST
    """By default near the file's reference pose."""

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise InputError(f"model must be what load_model returned, got {type(self.model).__name__}")
        own_end = self.alive is not None and not isinstance(self.alive, _FilledEnd)
        if own_end and self.terminate_below is not None:
            raise InputError("an episode ends by `alive` or by `terminate_below`: set one of them to None")
        filled: dict[str, object] = {"name": self.name or self.model.name}
        # What was filled in before is filled in anew when a copy has another torso or model.
        if not self.observation or isinstance(self.observation, _Filled):
            filled["observation"] = _Filled(running_senses(self.model, self.torso))
        if not self.reward or isinstance(self.reward, _Filled):
            filled["reward"] = _Filled(running_rewards(self.model, self.torso))
        if not own_end:
            lowest = self.terminate_below
            filled["alive"] = (
                None if lowest is None else _FilledEnd(self.torso, finite_number("terminate_below", lowest))
            )
        for name, value in filled.items():
            object.__setattr__(self, name, value)
        super().__post_init__()


class _Filled(dict[str, Any]):
    """Parts that nobody asked for by name."""


@dataclass(frozen=True)
class above:
    """An episode goes on while a body's origin is no lower than this [m]."""

    body: str
    height: float

    def __call__(self, world: World) -> Real:
        """How far it is above."""
        return world.position(self.body).z - self.height


class _FilledEnd(above):
    """An end that nobody asked for by itself."""


def running_senses(model: Model, torso: str) -> dict[str, Sense]:
    """What a runner sees of itself: all but where on the ground it is."""
    root = find_root(model, torso)
    limbs: dict[str, Sense] = {
        "joint positions": senses.joint_positions(torso),
        "joint velocities": senses.joint_velocities(torso, RATE_SCALE),
    }
    if root.ball is not None:
        # A torso may sit on a waist, above the body that floats.
        waist = any(joint.kind is JointKind.HINGE for joint in root.joints)
        bend: dict[str, Sense] = {
            "root angles": senses.root_angles(torso),
            "root rates": senses.root_rates(torso),
        }
        return {
            "height": senses.height(torso),
            "orientation": senses.orientation(torso),
            "velocity": senses.velocity(torso),
            "angular velocity": senses.angular_velocity(torso),
            **(bend if waist else {}),
            **limbs,
            "uprightness": senses.uprightness(torso),
            "heading": senses.heading(torso),
            "last action": senses.last_action(),
        }
    return {
        "height": senses.height(torso),
        "root angles": senses.root_angles(torso),
        "root velocities": senses.root_velocities(torso),
        **limbs,
        "last action": senses.last_action(),
    }


def running_rewards(model: Model, torso: str, action_cost: float = 0.01) -> dict[str, Term]:
    """Speed along x, less a cost of actions; a robot in space is also paid for keeping upright and heading for x."""
    forward: dict[str, Term] = {"forward": shaping.forward_speed(torso)}
    effort: dict[str, Term] = {"effort": shaping.weighted(-action_cost, shaping.effort())}
    if find_root(model, torso).ball is None:
        return {**forward, **effort}
    balance: dict[str, Term] = {
        "upright": shaping.weighted(0.1, shaping.uprightness(torso)),
        "heading": shaping.heading(torso),
    }
    return {**forward, **balance, **effort}
