"""SNU Humanoid: a lower body with 152 muscles runs along x. Paper, appendix F; docs/tasks/snu_humanoid.md."""

from __future__ import annotations

from ahac.envs import rewards
from ahac.envs.resets import PAPER_RESET
from ahac.envs.robot import RobotTask, locomotion_observations
from ahac.envs.task import Task
from ahac.envs.variants import load_bundled_model, select_variant

__all__ = ["snu_humanoid"]

PELVIS = "pelvis"
MIN_HEIGHT = 0.46
"""Height of the pelvis below which an episode terminates, h_term [m]."""


def snu_humanoid(variant: str = "paper") -> Task:
    """v_x + R_height + 0.1 R_angle + R_heading − 0.002 Σ activation²; released: no height, 0.001 Σ activation."""
    reward = rewards.locomotion(
        PELVIS, rewards.height_reward(PELVIS, MIN_HEIGHT), rewards.weighted(-0.002, rewards.activation_cost(2))
    )
    released = {**reward, "effort": rewards.weighted(-0.001, rewards.activation_cost(1))}
    del released["height"]
    model = load_bundled_model("snu_humanoid")
    observation = locomotion_observations(model, PELVIS)
    del observation["last action"]
    return RobotTask(
        name="snu_humanoid",
        model=model,
        torso=PELVIS,
        terminate_below=MIN_HEIGHT,
        observation=observation,
        reward=select_variant(variant, {"paper": reward, "released": released}),
        reset=PAPER_RESET,
        substeps=48,
        integrator="explicit",
    )
