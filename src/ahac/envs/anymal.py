"""Anymal: a quadruped after ANYmal C, twelve hinges, runs along x. The paper's appendix F; docs/tasks/anymal.md."""

from __future__ import annotations

from ahac.envs import shaping
from ahac.envs.robot import RobotTask
from ahac.envs.starts import FREE_START
from ahac.envs.task import Task
from ahac.envs.variants import bundled_model, chosen

__all__ = ["anymal"]

BASE = "base"
LOWEST = 0.25
"""Height of the base below which an episode ends, h_term [m]."""


def anymal(variant: str = "paper") -> Task:
    """v_x + R_height + 0.1 R_angle + R_heading − 0.01 ‖a‖²; released: height without a kink, 0.005 for actions."""
    height, action_cost = chosen(variant, {
        "paper": (shaping.stature(BASE, LOWEST), 0.01),
        "released": (shaping.elevation(BASE, LOWEST), 0.005),
    })  # fmt: skip
    return RobotTask(
        name="anymal",
        model=bundled_model("anymal"),
        torso=BASE,
        terminate_below=LOWEST,
        reward=shaping.locomotion(BASE, height, shaping.weighted(-action_cost, shaping.effort())),
        start=FREE_START,
    )
