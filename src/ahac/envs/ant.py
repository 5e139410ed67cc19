"""Ant: a quadruped with eight hinges runs along x. Paper, appendix F; docs/tasks/ant.md."""

from __future__ import annotations

from ahac.envs import rewards
from ahac.envs.resets import PAPER_RESET
from ahac.envs.robot import RobotTask
from ahac.envs.task import Task
from ahac.envs.variants import load_bundled_model, select_variant

__all__ = ["ant"]

TORSO = "torso"
MIN_HEIGHT = 0.27
"""Height of the torso below which an episode terminates, h_term [m]."""


def ant(variant: str = "paper") -> Task:
    """v_x + R_height + 0.1 R_angle + R_heading − 0.01 ‖a‖²; released: linear height, no action cost."""
    height, action_cost = select_variant(
        variant,
        {
            "paper": (rewards.height_reward(TORSO, MIN_HEIGHT), 0.01),
            "released": (rewards.height_above(TORSO, MIN_HEIGHT), 0.0),
        },
    )
    return RobotTask(
        name="ant",
        model=load_bundled_model("ant"),
        integrator="explicit",
        torso=TORSO,
        terminate_below=MIN_HEIGHT,
        reward=rewards.locomotion(TORSO, height, rewards.weighted(-action_cost, rewards.action_l2())),
        reset=PAPER_RESET,
    )
