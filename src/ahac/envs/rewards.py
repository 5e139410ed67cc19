"""Reward terms: functions of the world before a step and of the action taken.

Writing your own takes a few lines:

    def spin(world: World, action: Action) -> Real:
        return -0.1 * world.angular_velocity("torso").z ** 2
"""

from __future__ import annotations

import math

from ahac.envs.task import Action, RewardTerm
from ahac.sim import Real, World, atan2, clip, cos, sin, where

__all__ = [
    "action_l2",
    "activation_cost",
    "ang_vel_xy_l2",
    "flat_orientation_l2",
    "forward_speed",
    "heading",
    "height_above",
    "height_reward",
    "joint_angle_l2",
    "joint_pos_l2",
    "joint_vel_l2",
    "lin_vel_z_l2",
    "locomotion",
    "pitch_reward",
    "uprightness",
    "weighted",
]

FALL_PENALTY = 200.0
"""Weight of the squared distance below the target height in the paper's R_height [1/m²]."""


def locomotion(torso: str, height: RewardTerm, effort: RewardTerm) -> dict[str, RewardTerm]:
    """Return the paper's reward for running in 3D: v_x + R_height + 0.1 R_angle + R_heading + effort."""
    return {
        "forward": forward_speed(torso),
        "height": height,
        "upright": weighted(0.1, uprightness(torso)),
        "heading": heading(torso),
        "effort": effort,
    }


def weighted(weight: float, term: RewardTerm) -> RewardTerm:
    """Multiply a reward term by a weight."""
    return lambda world, action: weight * term(world, action)


def forward_speed(body: str) -> RewardTerm:
    """Velocity of a body's origin along x, v_x [m/s]: the paper's main objective."""
    return lambda world, action: world.velocity(body).x


def height_reward(
    body: str, wanted: float, *, slope: float = 1.0, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> RewardTerm:
    """R_height, where d = height − wanted, clipped to `bounds` [m]:

    slope · d    where d >= 0,        −200 d²    where d < 0
    """

    def term(world: World, action: Action) -> Real:
        d = world.position(body).z - wanted
        if bounds != (-math.inf, math.inf):
            d = clip(d, *bounds)
        return where(d < 0.0, -FALL_PENALTY * d * d, slope * d)

    return term


def height_above(body: str, wanted: float) -> RewardTerm:
    """Height relative to a target, height − wanted [m]; negative below it, without a kink."""
    return lambda world, action: world.position(body).z - wanted


def pitch_reward(joint: str, tolerated: float) -> RewardTerm:
    """R_angle of a planar robot: 1 − (angle / tolerated)²; angles in [rad]."""
    return lambda world, action: 1.0 - (world.joint_position(joint) / tolerated) ** 2


def uprightness(body: str) -> RewardTerm:
    """R_angle of a robot in 3D: vertical component of its up axis, cos θ ≈ 1 − θ²/2 for small tilts θ."""
    return lambda world, action: world.rotation(body).column(2).z


def heading(body: str) -> RewardTerm:
    """R_heading: component of a body's forward axis along x, from 1 straight ahead to −1 backwards."""
    return lambda world, action: world.rotation(body).column(0).x


def lin_vel_z_l2(body: str) -> RewardTerm:
    """Squared vertical velocity of a body's origin [m²/s²]."""
    return lambda world, action: world.velocity(body).z ** 2


def ang_vel_xy_l2(body: str) -> RewardTerm:
    """Squared angular velocity about horizontal axes [rad²/s²]: roll and pitch rates."""

    def term(world: World, action: Action) -> Real:
        rate = world.angular_velocity(body)
        return rate.x**2 + rate.y**2

    return term


def flat_orientation_l2(body: str) -> RewardTerm:
    """Squared horizontal components of gravity's direction in a body's axes: sin² of its tilt."""

    def term(world: World, action: Action) -> Real:
        rotation = world.rotation(body)
        return rotation.column(0).z ** 2 + rotation.column(1).z ** 2

    return term


def action_l2() -> RewardTerm:
    """Sum of squared actions, ‖a‖²."""
    return lambda world, action: sum((a * a for a in action), 0.0)


def activation_cost(power: int) -> RewardTerm:
    """Σ activationᵖ over all muscles, where activation = (action + 1) / 2 is in [0, 1]."""
    return lambda world, action: sum(((0.5 * (1.0 + a)) ** power for a in action), 0.0)


def joint_pos_l2(joint: str) -> RewardTerm:
    """Squared position of a hinge or slide [rad²] or [m²]."""
    return lambda world, action: world.joint_position(joint) ** 2


def joint_angle_l2(joint: str) -> RewardTerm:
    """Squared angle [rad²] of a hinge, wrapped to [−π, π]."""

    def term(world: World, action: Action) -> Real:
        angle = world.joint_position(joint)
        return atan2(sin(angle), cos(angle)) ** 2

    return term


def joint_vel_l2(joint: str) -> RewardTerm:
    """Squared velocity of a hinge or slide [rad²/s²] or [m²/s²]."""
    return lambda world, action: world.joint_velocity(joint) ** 2
