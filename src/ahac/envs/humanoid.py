"""Humanoid: 21 torque-driven hinges, runs along x. The paper's appendix F; docs/tasks/humanoid.md."""

from __future__ import annotations

from ahac.envs import shaping
from ahac.envs.robot import RobotTask
from ahac.envs.starts import FREE_START
from ahac.envs.task import Task
from ahac.envs.variants import bundled_model, chosen

__all__ = ["humanoid"]

TORSO = "torso"
LOWEST = 0.74
"""Height of the torso below which an episode ends, h_term [m]."""


def humanoid(variant: str = "paper") -> Task:
    """v_x + R_height + 0.1 R_angle + R_heading − 0.002 ‖a‖²; released: height from 0.84 m on, tenfold, up to 1."""
    height = chosen(variant, {
        "paper": shaping.stature(TORSO, LOWEST),
        "released": shaping.stature(TORSO, LOWEST + 0.1, slope=10.0, bounds=(-1.0, 0.1)),
    })  # fmt: skip
    return RobotTask(
        name="humanoid",
        model=bundled_model("humanoid"),
        torso=TORSO,
        terminate_below=LOWEST,
        reward=shaping.locomotion(TORSO, height, shaping.weighted(-0.002, shaping.effort())),
        start=FREE_START,
        substeps=48,
    )
