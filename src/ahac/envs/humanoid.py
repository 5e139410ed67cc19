"""Humanoid: 21 torque-driven hinges, runs along x. Paper, appendix F; docs/tasks/humanoid.md."""

from __future__ import annotations

from ahac.envs import rewards
from ahac.envs.resets import PAPER_RESET
from ahac.envs.robot import RobotTask
from ahac.envs.task import Task
from ahac.envs.variants import load_bundled_model, select_variant

__all__ = ["humanoid"]

TORSO = "torso"
MIN_HEIGHT = 0.74
"""Height of the torso below which an episode terminates, h_term [m]."""


def humanoid(variant: str = "paper") -> Task:
    """v_x + R_height + 0.1 R_angle + R_heading − 0.002 ‖a‖²; released: 10 × height above 0.84 m, at most 1."""
    height = select_variant(
        variant,
        {
            "paper": rewards.height_reward(TORSO, MIN_HEIGHT),
            "released": rewards.height_reward(TORSO, MIN_HEIGHT + 0.1, slope=10.0, bounds=(-1.0, 0.1)),
        },
    )
    return RobotTask(
        name="humanoid",
        model=load_bundled_model("humanoid"),
        integrator="explicit",
        torso=TORSO,
        terminate_below=MIN_HEIGHT,
        reward=rewards.locomotion(TORSO, height, rewards.weighted(-0.002, rewards.action_l2())),
        reset=PAPER_RESET,
        substeps=48,
    )
