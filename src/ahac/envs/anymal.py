"""Anymal: a quadruped like ANYmal C, with twelve hinges, runs along x. Paper, appendix F; docs/tasks/anymal.md."""

from __future__ import annotations

from ahac.envs import rewards
from ahac.envs.resets import PAPER_RESET
from ahac.envs.robot import RobotTask
from ahac.envs.task import Task
from ahac.envs.variants import load_bundled_model, select_variant

__all__ = ["anymal"]

BASE = "base"
MIN_HEIGHT = 0.25
"""Height of the base below which an episode terminates, h_term [m]."""


def anymal(variant: str = "paper") -> Task:
    """v_x + R_height + 0.1 R_angle + R_heading − 0.01 ‖a‖²; released: linear height, action cost 0.005."""
    height, action_cost = select_variant(
        variant,
        {
            "paper": (rewards.height_reward(BASE, MIN_HEIGHT), 0.01),
            "released": (rewards.height_above(BASE, MIN_HEIGHT), 0.005),
        },
    )
    return RobotTask(
        name="anymal",
        model=load_bundled_model("anymal"),
        integrator="explicit",
        torso=BASE,
        terminate_below=MIN_HEIGHT,
        reward=rewards.locomotion(BASE, height, rewards.weighted(-action_cost, rewards.action_l2())),
        reset=PAPER_RESET,
    )
