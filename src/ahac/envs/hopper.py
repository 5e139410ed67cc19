"""Hopper: one leg with three hinges hops along x, in a plane. Paper, appendix F; docs/tasks/hopper.md."""

from __future__ import annotations

from ahac.envs import observations, rewards
from ahac.envs.resets import NoisyReset
from ahac.envs.robot import MinHeight
from ahac.envs.task import Task
from ahac.envs.variants import load_bundled_model, select_variant

__all__ = ["hopper"]

TORSO = "torso"
MIN_HEIGHT = 0.8
"""Height of the torso below which an episode terminates, h_term [m]."""
MAX_TILT = 0.524
"""Pitch at which R_angle is zero, θ_term [rad]."""
JOINTS = ("root_x", "root_z", "root_pitch", "thigh", "leg", "foot")


def hopper(variant: str = "paper") -> Task:
    """v_x + R_height + R_angle − 0.1 ‖a‖²; released: height counted from 0.95 m, at most 0.3."""
    height = select_variant(
        variant,
        {
            "paper": rewards.height_reward(TORSO, MIN_HEIGHT),
            "released": rewards.height_reward(TORSO, MIN_HEIGHT + 0.15, bounds=(-1.0, 0.3)),
        },
    )
    return Task(
        name="hopper",
        model=load_bundled_model("hopper"),
        integrator="explicit",
        observation={"positions": observations.joint_pos(*JOINTS[1:]), "velocities": observations.joint_vel(*JOINTS)},
        reward={
            "forward": rewards.forward_speed(TORSO),
            "height": height,
            "upright": rewards.pitch_reward("root_pitch", MAX_TILT),
            "effort": rewards.weighted(-0.1, rewards.action_l2()),
        },
        reset=NoisyReset(root_position=0.05, joint_position=0.05, velocity=0.05),
        alive=MinHeight(TORSO, MIN_HEIGHT),
    )
