"""A running task for any robot: move along x, stay upright, save effort.

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
from ahac.envs.task import Observation, ObsTerm, ResetFn, RewardTerm, Task
from ahac.sim import JointKind, Model, Real, World

__all__ = ["MinHeight", "RobotTask", "locomotion_observations", "locomotion_rewards"]

JOINT_VEL_SCALE = 0.1
"""Scale of observed joint velocities: their unit is 10 rad/s."""

DEFAULT_RESET = NoisyReset(
    keyframe=None, root_position=0.05, root_rotation=math.pi / 24, joint_position=0.05, velocity=0.1
)


@dataclass(frozen=True, kw_only=True)
class RobotTask(Task):
    """Run along x. Omitted fields get defaults that suit a legged robot of any shape."""

    name: str = ""
    """Task name; defaults to the name of the model."""
    torso: str
    """Name of the body that should run."""
    terminate_below: float | None = None
    """Terminate an episode when the torso's origin is lower than this [m]; None disables the check."""
    observation: Observation = field(default_factory=dict)
    """Observation terms by name; defaults to `locomotion_observations`."""
    reward: Mapping[str, RewardTerm] = field(default_factory=dict)
    """Reward terms by name; defaults to `locomotion_rewards`."""
    reset: ResetFn = DEFAULT_RESET
    """Draws the initial state of an episode; by default near the file's reference pose."""

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise InputError(f"model must be a Model from load_model, got {type(self.model).__name__}")
        custom_alive = self.alive is not None and not isinstance(self.alive, _DefaultMinHeight)
        if custom_alive and self.terminate_below is not None:
            raise InputError("both `alive` and `terminate_below` are set, use one of them and set the other to None")
        defaults: dict[str, object] = {"name": self.name or self.model.name}
        # `dataclasses.replace` passes earlier defaults back in: derive them again from the new model and torso.
        if not self.observation or isinstance(self.observation, _DefaultTerms):
            defaults["observation"] = _DefaultTerms(locomotion_observations(self.model, self.torso))
        if not self.reward or isinstance(self.reward, _DefaultTerms):
            defaults["reward"] = _DefaultTerms(locomotion_rewards(self.model, self.torso))
        if not custom_alive:
            height = self.terminate_below
            defaults["alive"] = (
                None if height is None else _DefaultMinHeight(self.torso, check_finite("terminate_below", height))
            )
        for name, value in defaults.items():
            object.__setattr__(self, name, value)
        super().__post_init__()


class _DefaultTerms(dict[str, Any]):
    """Terms that `RobotTask` filled in, as opposed to terms from the user."""


@dataclass(frozen=True)
class MinHeight:
    """Keep an episode alive while a body's origin is at or above a height [m]."""

    body: str
    height: float

    def __call__(self, world: World) -> Real:
        """Return the margin above the height [m]; negative means the episode terminates."""
        return world.position(self.body).z - self.height


class _DefaultMinHeight(MinHeight):
    """Termination that `RobotTask` derived from `terminate_below`, as opposed to one from the user."""


def locomotion_observations(model: Model, torso: str) -> dict[str, ObsTerm]:
    """Return the default observation: the full state of the robot except its position on the ground."""
    root = find_root(model, torso)
    limbs: dict[str, ObsTerm] = {
        "joint positions": observations.limb_joint_pos(torso),
        "joint velocities": observations.limb_joint_vel(torso, JOINT_VEL_SCALE),
    }
    if root.ball is not None:
        # A waist may connect the torso to the body with the free joint.
        has_waist = any(joint.kind is JointKind.HINGE for joint in root.joints)
        waist: dict[str, ObsTerm] = {
            "root angles": observations.root_angles(torso),
            "root rates": observations.root_angular_velocities(torso),
        }
        return {
            "height": observations.height(torso),
            "orientation": observations.orientation(torso),
            "velocity": observations.velocity(torso),
            "angular velocity": observations.angular_velocity(torso),
            **(waist if has_waist else {}),
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
    """Return the default reward: speed along x minus an action cost; in 3D also staying upright and facing x."""
    forward: dict[str, RewardTerm] = {"forward": rewards.forward_speed(torso)}
    effort: dict[str, RewardTerm] = {"effort": rewards.weighted(-action_cost, rewards.action_l2())}
    if find_root(model, torso).ball is None:
        return {**forward, **effort}
    balance: dict[str, RewardTerm] = {
        "upright": rewards.weighted(0.1, rewards.uprightness(torso)),
        "heading": rewards.heading(torso),
    }
    return {**forward, **balance, **effort}
