"""Half-cheetah: two legs of three hinges run along x, in a plane. Not in the paper; docs/tasks/half_cheetah.md."""

from __future__ import annotations

from ahac.envs import senses, shaping
from ahac.envs.starts import NoisyStart
from ahac.envs.task import Task
from ahac.envs.variants import VARIANTS, bundled_model, chosen

__all__ = ["half_cheetah"]

JOINTS = (
    "root_x", "root_z", "root_pitch", "hind_thigh", "hind_shin", "hind_foot", "front_thigh", "front_shin", "front_foot",
)  # fmt: skip


def half_cheetah(variant: str = "paper") -> Task:
    """v_x − 0.1 ‖a‖², in both variants."""
    chosen(variant, dict.fromkeys(VARIANTS))
    return Task(
        name="half_cheetah",
        model=bundled_model("half_cheetah"),
        observation={"positions": senses.coordinates(*JOINTS[1:]), "velocities": senses.rates(*JOINTS)},
        reward={
            "forward": shaping.forward_speed("torso"),
            "effort": shaping.weighted(-0.1, shaping.effort()),
        },
        start=NoisyStart(place=0.1, joints=0.1, velocity=0.25),
    )
