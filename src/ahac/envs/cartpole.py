"""Cartpole: a cart swings up its pole and holds it. Not in the paper; docs/tasks/cartpole.md."""

from __future__ import annotations

import math

from ahac.envs import senses, shaping
from ahac.envs.starts import NoisyStart
from ahac.envs.task import Task
from ahac.envs.variants import bundled_model, chosen

__all__ = ["cartpole"]


def cartpole(variant: str = "paper") -> Task:
    """−θ² − 0.1 θ̇² − 0.05 x² − 0.1 ẋ², from hanging; released: from within 90° of upright."""
    start = chosen(variant, {
        "paper": NoisyStart(keyframe="start", place=0.5 * math.pi, joints=0.5 * math.pi, velocity=0.25),
        "released": NoisyStart(keyframe=None, place=0.5 * math.pi, joints=0.5 * math.pi, velocity=0.25),
    })  # fmt: skip
    return Task(
        name="cartpole",
        model=bundled_model("cartpole"),
        observation={
            "cart": senses.coordinates("slider"),
            "cart velocity": senses.rates("slider"),
            "pole": senses.circle("hinge"),
            "pole velocity": senses.rates("hinge"),
        },
        reward={
            "angle": shaping.weighted(-1.0, shaping.angle_squared("hinge")),
            "angular velocity": shaping.weighted(-0.1, shaping.rate_squared("hinge")),
            "place": shaping.weighted(-0.05, shaping.coordinate_squared("slider")),
            "velocity": shaping.weighted(-0.1, shaping.rate_squared("slider")),
        },
        start=start,
        substeps=4,
        episode_steps=240,
    )
