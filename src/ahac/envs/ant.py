"""Ant: a quadruped of eight hinges runs along x. The paper's appendix F; docs/tasks/ant.md."""

from __future__ import annotations

from ahac.envs import shaping
from ahac.envs.robot import RobotTask
from ahac.envs.starts import FREE_START
from ahac.envs.task import Task
from ahac.envs.variants import bundled_model, chosen

__all__ = ["ant"]

TORSO = "torso"
LOWEST = 0.27
"""Height of the torso below which an episode ends, h_term [m]."""


def ant(variant: str = "paper") -> Task:
    """v_x + R_height + 0.1 R_angle + R_heading − 0.01 ‖a‖²; released: height without a kink, actions for free."""
    height, action_cost = chosen(variant, {
        "paper": (shaping.stature(TORSO, LOWEST), 0.01),
        "released": (shaping.elevation(TORSO, LOWEST), 0.0),
    })  # fmt: skip
    return RobotTask(
        name="ant",
        model=bundled_model("ant"),
        torso=TORSO,
        terminate_below=LOWEST,
        reward=shaping.locomotion(TORSO, height, shaping.weighted(-action_cost, shaping.effort())),
        start=FREE_START,
    )
