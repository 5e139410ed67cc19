"""Unitree Go1: follow velocity commands at a trot."""

from __future__ import annotations

from ahac.envs.actions import JointTargets
from ahac.envs.task import Task
from ahac.envs.variants import check_variant, load_bundled_model
from ahac.envs.walk import walk

__all__ = ["go1"]


def go1(variant: str = "paper") -> Task:
    """Return the task; it is not in the paper, so its variants are the same."""
    check_variant(variant)
    return walk(
        load_bundled_model("go1"),
        base="trunk",
        feet=("FL_foot", "FR_foot", "RL_foot", "RR_foot"),
        actions=JointTargets(scale={"*_hip_joint": 0.4, "*_thigh_joint": 0.7, "*_calf_joint": 0.7}),
    )
