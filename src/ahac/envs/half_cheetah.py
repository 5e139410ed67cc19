"""Half-cheetah: two legs of three hinges each run along x, in a plane. Not in the paper; docs/tasks/half_cheetah.md."""

from __future__ import annotations

from ahac.envs import observations, rewards
from ahac.envs.resets import NoisyReset
from ahac.envs.task import Task
from ahac.envs.variants import VARIANTS, load_bundled_model, select_variant

__all__ = ["half_cheetah"]

JOINTS = (
    "root_x", "root_z", "root_pitch", "hind_thigh", "hind_shin", "hind_foot", "front_thigh", "front_shin", "front_foot",
)  # fmt: skip


def half_cheetah(variant: str = "paper") -> Task:
    """v_x − 0.1 ‖a‖², in both variants."""
    select_variant(variant, dict.fromkeys(VARIANTS))
    return Task(
        name="half_cheetah",
        model=load_bundled_model("half_cheetah"),
        integrator="explicit",
        observation={"positions": observations.joint_pos(*JOINTS[1:]), "velocities": observations.joint_vel(*JOINTS)},
        reward={
            "forward": rewards.forward_speed("torso"),
            "effort": rewards.weighted(-0.1, rewards.action_l2()),
        },
        reset=NoisyReset(root_position=0.1, joint_position=0.1, velocity=0.25),
    )
