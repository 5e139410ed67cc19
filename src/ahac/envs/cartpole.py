"""Cartpole: a cart swings up its pole and holds it. Not in the paper; docs/tasks/cartpole.md."""

from __future__ import annotations

import math

from ahac.envs import observations, rewards
from ahac.envs.resets import NoisyReset
from ahac.envs.task import Task
from ahac.envs.variants import load_bundled_model, select_variant

__all__ = ["cartpole"]


def cartpole(variant: str = "paper") -> Task:
    """−θ² − 0.1 θ̇² − 0.05 x² − 0.1 ẋ², starting from hanging; released: starting within 90° of upright."""
    reset = select_variant(
        variant,
        {
            "paper": NoisyReset(
                keyframe="start", root_position=0.5 * math.pi, joint_position=0.5 * math.pi, velocity=0.25
            ),
            "released": NoisyReset(
                keyframe=None, root_position=0.5 * math.pi, joint_position=0.5 * math.pi, velocity=0.25
            ),
        },
    )
    return Task(
        name="cartpole",
        model=load_bundled_model("cartpole"),
        integrator="explicit",
        observation={
            "cart": observations.joint_pos("slider"),
            "cart velocity": observations.joint_vel("slider"),
            "pole": observations.sin_cos("hinge"),
            "pole velocity": observations.joint_vel("hinge"),
        },
        reward={
            "angle": rewards.weighted(-1.0, rewards.joint_angle_l2("hinge")),
            "angular velocity": rewards.weighted(-0.1, rewards.joint_vel_l2("hinge")),
            "place": rewards.weighted(-0.05, rewards.joint_pos_l2("slider")),
            "velocity": rewards.weighted(-0.1, rewards.joint_vel_l2("slider")),
        },
        reset=reset,
        substeps=4,
        episode_steps=240,
    )
