# pyright: reportAttributeAccessIssue=false
"""The reference pose of a file: whether it stands on the ground, and whether its mass matrix can be inverted."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from ahac.sim.model.constraints import RestPose
from ahac.sim.model.contact_geoms import TouchingGeom
from ahac.sim.model.notes import Notes
from ahac.sim.model.unsupported import element_name

__all__ = ["pose", "standing_pose", "warn_singular"]

SUNK = 1e-2
"""A reference pose that is deeper in the ground than this is lifted [m]."""
UPRIGHT = 0.5
"""Only planes whose normals have at least this upward component carry a robot."""
SINGULAR = 1e-9
"""Smallest eigenvalue of the mass matrix, scaled to a unit diagonal, that a simulation survives."""


def pose(raw: mujoco.MjModel, q: np.ndarray) -> mujoco.MjData:
    """Return MuJoCo's poses of all geoms for positions q."""
    data = mujoco.MjData(raw)
    data.qpos[:] = q
    mujoco.mj_kinematics(raw, data)
    return data


def standing_pose(raw: mujoco.MjModel, touching: Sequence[TouchingGeom], notes: Notes) -> np.ndarray:
    """Return the reference pose, with free roots lifted so that nothing is below the ground."""
    data = pose(raw, raw.qpos0)
    lifts: dict[int, float] = {}
    for t in touching:
        upward = t.plane.normal[2]
        root = int(raw.body_rootid[raw.geom_bodyid[t.geom]])
        first = int(raw.body_jntadr[root])
        if upward < UPRIGHT or first < 0 or raw.jnt_type[first] != mujoco.mjtJoint.mjJNT_FREE:
            continue
        address = int(raw.jnt_qposadr[first])
        lifts[address] = max(lifts.get(address, 0.0), -float(t.heights(data).min()) / upward)
    q = np.array(raw.qpos0)
    for address, lift in lifts.items():
        if lift > SUNK:
            q[address + 2] += lift
    if sunk := [lift for lift in lifts.values() if lift > SUNK]:
        report = notes.add if raw.nkey else notes.warn
        report(
            f"the reference pose is up to {max(sunk):.3g} m below the ground: the rest state is lifted to stand on it; "
            "keyframes are not"
        )
    return q


def warn_singular(raw: mujoco.MjModel, reference: RestPose, notes: Notes) -> None:
    """Warn about a mass matrix that is singular in the reference pose."""
    scale = np.sqrt(np.diag(reference.mass_matrix))
    values, vectors = np.linalg.eigh(reference.mass_matrix / np.outer(scale, scale))
    if values[0] > SINGULAR:
        return
    weights = np.abs(vectors[:, 0])
    dofs = np.flatnonzero(weights > 0.3 * weights.max())
    joints = dict.fromkeys(element_name(raw, "joint", int(raw.dof_jntid[k])) for k in dofs)
    notes.warn(
        f"the mass matrix is singular in the reference pose (smallest scaled eigenvalue {values[0]:.1e}): the joints "
        f"{', '.join(map(repr, joints))} can move without moving any mass; remove one of them, or set armature on them"
    )
