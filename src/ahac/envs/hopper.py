"""Hopper: one leg of three hinges hops along x, in a plane. The paper's appendix F; docs/tasks/hopper.md."""

from __future__ import annotations

from ahac.envs import senses, shaping
from ahac.envs.robot import above
from ahac.envs.starts import NoisyStart
from ahac.envs.task import Task
from ahac.envs.variants import bundled_model, chosen

__all__ = ["hopper"]

TORSO = "torso"
LOWEST = 0.8
"""Height of the torso below which an episode ends, h_term [m]."""
LARGEST_TILT = 0.524
"""At which R_angle is zero, θ_term [rad]."""
JOINTS = ("root_x", "root_z", "root_pitch", "thigh", "leg", "foot")


def hopper(variant: str = "paper") -> Task:
    """v_x + R_height + R_angle − 0.1 ‖a‖²; released: height from 0.95 m on, up to 0.3."""
    height = chosen(variant, {
        "paper": shaping.stature(TORSO, LOWEST),
        "released": shaping.stature(TORSO, LOWEST + 0.15, bounds=(-1.0, 0.3)),
    })  # fmt: skip
    return Task(
        name="hopper",
        model=bundled_model("hopper"),
        observation={"positions": senses.coordinates(*JOINTS[1:]), "velocities": senses.rates(*JOINTS)},
        reward={
            "forward": shaping.forward_speed(TORSO),
            "height": height,
            "upright": shaping.tilt("root_pitch", LARGEST_TILT),
            "effort": shaping.weighted(-0.1, shaping.effort()),
        },
        start=NoisyStart(place=0.05, joints=0.05, velocity=0.05),
        alive=above(TORSO, LOWEST),
    )
