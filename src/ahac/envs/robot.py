"""Any robot as a task: run forward, keep upright, waste nothing.

model = load_model("robot.xml", motors=Motor(strength=30.0), ground=True)
env = ahac.make(RobotTask(model=model, torso="trunk", terminate_below=0.3), num_envs=64)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ahac.core.checks import check_finite
from ahac.core.errors import InputError
from ahac.envs import observations, rewards
from ahac.envs.resets import NoisyReset
from ahac.envs.root import find_root
from ahac.envs.task import ObsTerm, ResetFn, RewardTerm, Task
from ahac.sim import JointKind, Model, Real, World

__all__ = ["MinHeight", "RobotTask", "locomotion_observations", "locomotion_rewards"]

JOINT_VEL_SCALE = 0.1
"""Of observed joint rates: they are seen in units of 10 rad/s."""

DEFAULT_RESET = NoisyReset(
    keyframe=None, root_position=0.05, root_rotation=math.pi / 24, joint_position=0.05, velocity=0.1
)


@dataclass(frozen=True, kw_only=True)
class RobotTask(Task):
    """A robot that shall run along x. What is left out is chosen to suit a walking machine of any shape."""

    name: str = ""
    """By default the model's."""
    torso: str
    """Name of the body that shall run."""
    terminate_below: float | None = None
    """An episode ends when the torso's origin is lower than this [m]."""
    observation: Mapping[str, ObsTerm] = field(default_factory=dict)
    """By default `locomotion_observations`."""
    reward: Mapping[str, RewardTerm] = field(default_factory=dict)
    """By default `locomotion_rewards`."""
    reset: ResetFn = DEFAULT_RESET
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
            filled["observation"] = _Filled(locomotion_observations(self.model, self.torso))
        if not self.reward or isinstance(self.reward, _Filled):
            filled["reward"] = _Filled(locomotion_rewards(self.model, self.torso))
        if not own_end:
            lowest = self.terminate_below
            filled["alive"] = (
                None if lowest is None else _FilledEnd(self.torso, check_finite("terminate_below", lowest))
            )
        for name, value in filled.items():
            object.__setattr__(self, name, value)
        super().__post_init__()


class _Filled(dict[str, Any]):
    """Parts that nobody asked for by name."""


@dataclass(frozen=True)
class MinHeight:
    """An episode goes on while a body's origin is no lower than this [m]."""

    body: str
    height: float

    def __call__(self, world: World) -> Real:
        """How far it is above."""
        return world.position(self.body).z - self.height


class _FilledEnd(MinHeight):
    """An end that nobody asked for by itself."""


def locomotion_observations(model: Model, torso: str) -> dict[str, ObsTerm]:
    """What a runner sees of itself: all but where on the ground it is."""
    root = find_root(model, torso)
    limbs: dict[str, ObsTerm] = {
        "joint positions": observations.limb_joint_pos(torso),
        "joint velocities": observations.limb_joint_vel(torso, JOINT_VEL_SCALE),
    }
    if root.ball is not None:
        # A torso may sit on a waist, above the body that floats.
        waist = any(joint.kind is JointKind.HINGE for joint in root.joints)
        bend: dict[str, ObsTerm] = {
            "root angles": observations.root_angles(torso),
            "root rates": observations.root_angular_velocities(torso),
        }
        return {
            "height": observations.height(torso),
            "orientation": observations.orientation(torso),
            "velocity": observations.velocity(torso),
            "angular velocity": observations.angular_velocity(torso),
            **(bend if waist else {}),
            **limbs,
            "uprightness": observations.uprightness(torso),
            "heading": observations.heading(torso),
            "last action": observations.last_action(),
        }
    return {
        "height": observations.height(torso),
        "root angles": observations.root_angles(torso),
        "root velocities": observations.root_velocities(torso),
        **limbs,
        "last action": observations.last_action(),
    }


def locomotion_rewards(model: Model, torso: str, action_cost: float = 0.01) -> dict[str, RewardTerm]:
    """Speed along x, less a cost of actions; a robot in space is also paid for keeping upright and heading for x."""
    forward: dict[str, RewardTerm] = {"forward": rewards.forward_speed(torso)}
    effort: dict[str, RewardTerm] = {"effort": rewards.weighted(-action_cost, rewards.action_l2())}
    if find_root(model, torso).ball is None:
        return {**forward, **effort}
    balance: dict[str, RewardTerm] = {
        "upright": rewards.weighted(0.1, rewards.uprightness(torso)),
        "heading": rewards.heading(torso),
    }
    return {**forward, **balance, **effort}
