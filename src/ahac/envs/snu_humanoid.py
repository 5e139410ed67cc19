"""SNU Humanoid: a lower body of 152 muscles runs along x. The paper's appendix F; docs/tasks/snu_humanoid.md."""

from __future__ import annotations

from ahac.envs import shaping
from ahac.envs.robot import RobotTask, running_senses
from ahac.envs.starts import FREE_START
from ahac.envs.task import Task
from ahac.envs.variants import bundled_model, chosen

__all__ = ["snu_humanoid"]

PELVIS = "pelvis"
LOWEST = 0.46
"""Height of the pelvis below which an episode ends, h_term [m]."""


def snu_humanoid(variant: str = "paper") -> Task:
    """v_x + R_height + 0.1 R_angle + R_heading − 0.002 Σ activation²; released: no height, 0.001 Σ activation."""
    reward = shaping.locomotion(PELVIS, shaping.stature(PELVIS, LOWEST), shaping.weighted(-0.002, shaping.exertion(2)))
    released = {**reward, "effort": shaping.weighted(-0.001, shaping.exertion(1))}
    del released["height"]
    model = bundled_model("snu_humanoid")
    observation = running_senses(model, PELVIS)
    del observation["last action"]
    return RobotTask(
        name="snu_humanoid",
        model=model,
        torso=PELVIS,
        terminate_below=LOWEST,
        observation=observation,
        reward=chosen(variant, {"paper": reward, "released": released}),
        start=FREE_START,
        substeps=48,
    )
