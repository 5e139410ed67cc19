"""Double pendulum: an elbow motor swings up two arms. Not in the paper; docs/tasks/double_pendulum.md."""

from __future__ import annotations

import math

from ahac.envs import observations, rewards
from ahac.envs.resets import NoisyReset
from ahac.envs.task import Task
from ahac.envs.variants import VARIANTS, load_bundled_model, select_variant

__all__ = ["double_pendulum"]


def double_pendulum(variant: str = "paper") -> Task:
    """−θ₁² − θ₂² − 0.1 (θ̇₁² + θ̇₂²), in both variants."""
    select_variant(variant, dict.fromkeys(VARIANTS))
    return Task(
        name="double_pendulum",
        model=load_bundled_model("double_pendulum"),
        integrator="explicit",
        observation={
            "shoulder": observations.sin_cos("shoulder"),
            "elbow": observations.sin_cos("elbow"),
            "velocities": observations.joint_vel("shoulder", "elbow"),
        },
        reward={
            "shoulder": rewards.weighted(-1.0, rewards.joint_angle_l2("shoulder")),
            "elbow": rewards.weighted(-1.0, rewards.joint_angle_l2("elbow")),
            "shoulder velocity": rewards.weighted(-0.1, rewards.joint_vel_l2("shoulder")),
            "elbow velocity": rewards.weighted(-0.1, rewards.joint_vel_l2("elbow")),
        },
        reset=NoisyReset(joint_position=0.5 * math.pi, velocity=0.25),
        substeps=4,
        episode_steps=240,
    )
