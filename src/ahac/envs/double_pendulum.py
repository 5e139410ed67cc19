"""Double pendulum: an elbow motor swings up two arms. Not in the paper; docs/tasks/double_pendulum.md."""

from __future__ import annotations

import math

from ahac.envs import senses, shaping
from ahac.envs.starts import NoisyStart
from ahac.envs.task import Task
from ahac.envs.variants import VARIANTS, bundled_model, chosen

__all__ = ["double_pendulum"]


def double_pendulum(variant: str = "paper") -> Task:
    """−θ₁² − θ₂² − 0.1 (θ̇₁² + θ̇₂²), in both variants."""
    chosen(variant, dict.fromkeys(VARIANTS))
    return Task(
        name="double_pendulum",
        model=bundled_model("double_pendulum"),
        observation={
            "shoulder": senses.circle("shoulder"),
            "elbow": senses.circle("elbow"),
            "velocities": senses.rates("shoulder", "elbow"),
        },
        reward={
            "shoulder": shaping.weighted(-1.0, shaping.angle_squared("shoulder")),
            "elbow": shaping.weighted(-1.0, shaping.angle_squared("elbow")),
            "shoulder velocity": shaping.weighted(-0.1, shaping.rate_squared("shoulder")),
            "elbow velocity": shaping.weighted(-0.1, shaping.rate_squared("elbow")),
        },
        start=NoisyStart(joints=0.5 * math.pi, velocity=0.25),
        substeps=4,
        episode_steps=240,
    )
