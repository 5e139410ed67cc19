"""Unitree G1: a humanoid with 29 joints that follows velocity commands."""

from __future__ import annotations

from ahac.envs.actions import JointTargets
from ahac.envs.task import Task
from ahac.envs.variants import check_variant, load_bundled_model
from ahac.envs.walk import WalkRewards, walk

__all__ = ["g1"]

WEIGHTS = WalkRewards(
    alive=10.0,
    ang_vel_z_l2=-2.0,
    swing_height=-150.0,
    slip=-1.0,
    foothold=-10.0,
    feet_apart=-200.0,
    legs_apart=-100.0,
    base_height=-10.0,
    action_rate=-0.03,
    other_pose=-5.0,
)
"""A humanoid falls easily, so falling costs more than on a quadruped."""


def g1(variant: str = "paper") -> Task:
    """Return the task; it is not in the paper, so its variants are the same."""
    check_variant(variant)
    return walk(
        load_bundled_model("g1"),
        base="pelvis",
        feet=("left_foot*", "right_foot*"),
        frequency=2.0,
        swing_height=0.1,
        history=3,
        actions=JointTargets(
            scale={
                "*_hip_pitch_joint": 0.7,
                "*_hip_[ry]*_joint": 0.4,
                "*_knee_joint": 0.8,
                "*_ankle_*_joint": 0.5,
                "waist_*_joint": 0.3,
                "*_shoulder_*_joint": 0.4,
                "*_elbow_joint": 0.4,
                "*_wrist_*_joint": 0.3,
            }
        ),
        weights=WEIGHTS,
    )
