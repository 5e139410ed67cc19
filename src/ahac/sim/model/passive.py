# pyright: reportAttributeAccessIssue=false
"""Convert passive forces of joints: damping and armature, with those of their actuators, and gravity compensation."""

from __future__ import annotations

import mujoco
import numpy as np

from ahac.sim.model.tendons import added_by_actuators
from ahac.sim.model.tree import Tree, coefficients, floats, frame_on, vector
from ahac.sim.model.types import WORLD, Vector
from ahac.sim.model.unsupported import disabled

__all__ = ["compensated_masses", "joint_armature", "joint_damping"]

ON_JOINTS = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))


def joint_damping(model: mujoco.MjModel) -> tuple[tuple[float, ...], dict[int, tuple[float, ...]]]:
    """Return the linear damping of every velocity coordinate, and higher coefficients where there are any."""
    linear = np.zeros(model.nv)
    slopes: dict[int, tuple[float, ...]] = {}
    if disabled(model, "DAMPER"):
        return floats(linear), slopes
    for k in range(model.nv):
        total, _ = added_by_actuators(model, ON_JOINTS, int(model.dof_jntid[k]))
        own = coefficients(model, "dof_damping", k)
        total[: len(own)] += own
        linear[k] = total[0]
        if total[1:].any():
            slopes[k] = floats(np.trim_zeros(total[1:], "b"))
    return floats(linear), slopes


def joint_armature(model: mujoco.MjModel) -> tuple[float, ...]:
    """Return the armature of every velocity coordinate."""
    return tuple(
        float(model.dof_armature[k]) + added_by_actuators(model, ON_JOINTS, int(model.dof_jntid[k]))[1]
        for k in range(model.nv)
    )


def compensated_masses(model: mujoco.MjModel, tree: Tree) -> tuple[tuple[int, float, Vector], ...]:
    """Return link, mass and mass · center of all bodies whose weight is compensated, summed by link."""
    # If both springs and dampers are disabled, MuJoCo skips all passive forces.
    if disabled(model, "SPRING", "DAMPER") or disabled(model, "GRAVITY"):
        return ()
    masses: dict[int, float] = {}
    moments: dict[int, np.ndarray] = {}
    for b in np.flatnonzero(model.body_gravcomp):
        frame = frame_on(tree.frames[b], model.body_ipos[b], model.body_iquat[b])
        if frame.link != WORLD:
            mass = float(model.body_mass[b] * model.body_gravcomp[b])
            masses[frame.link] = masses.get(frame.link, 0.0) + mass
            moments[frame.link] = moments.get(frame.link, np.zeros(3)) + mass * np.array(frame.position)
    return tuple((link, masses[link], vector(moments[link])) for link in sorted(masses))
