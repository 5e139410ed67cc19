# pyright: reportAttributeAccessIssue=false
"""Read equality constraints, dry friction and the inertia that each of them acts on."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import mujoco
import numpy as np

from ahac.sim.model.notes import Notes
from ahac.sim.model.solver_settings import count_unusual
from ahac.sim.model.tree import Tree, frame_on, site_frame
from ahac.sim.model.types import (
    WORLD,
    Connect,
    Equality,
    Frame,
    Joint,
    JointEquality,
    Polynomial,
    TendonEquality,
    Weld,
)
from ahac.sim.model.unsupported import constraints_disabled, element_name

__all__ = ["RestPose", "dry_friction", "equalities", "note_constraints"]

EQUALITY = mujoco.mjtEq
TORQUE_SCALE = 10
"""Place of a weld's torquescale in its data."""
IDENTITY_QUATERNION = np.array([1.0, 0.0, 0.0, 0.0])


@dataclass(frozen=True)
class RestPose:
    """MuJoCo's poses and mass matrix in the reference pose of a file."""

    raw: mujoco.MjModel
    data: mujoco.MjData
    mass_matrix: np.ndarray
    """[nv, nv], armature included."""

    @classmethod
    def of(cls, raw: mujoco.MjModel) -> RestPose:
        """Evaluate a model in its reference pose."""
        data = mujoco.MjData(raw)
        mujoco.mj_kinematics(raw, data)
        mujoco.mj_comPos(raw, data)
        mujoco.mj_crb(raw, data)
        matrix = np.zeros((raw.nv, raw.nv))
        for row, unit in zip(matrix, np.eye(raw.nv), strict=True):
            mujoco.mj_mulM(raw, data, row, unit)
        return cls(raw, data, matrix)

    def inverse_mass(self, jacobian: np.ndarray) -> float:
        """Return the mean of the diagonal of J M⁻¹ Jᵀ, for a Jacobian [n, nv]."""
        return float(np.trace(jacobian @ np.linalg.pinv(self.mass_matrix) @ jacobian.T)) / len(jacobian)

    def jacobians(self, frame: Frame, body: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the Jacobians [3, nv] of a frame's position and of its rotation, in world axes.

        Args:
            frame: A frame on a link.
            body: The body that carries the link.
        """
        moving, turning = np.zeros((3, self.raw.nv)), np.zeros((3, self.raw.nv))
        if frame.link != WORLD:
            axes = self.data.xmat[body].reshape(3, 3)
            point = self.data.xpos[body] + axes @ np.array(frame.position)
            mujoco.mj_jac(self.raw, self.data, moving, turning, point, body)
        return moving, turning


def dry_friction(raw: mujoco.MjModel) -> tuple[float, ...]:
    """Return the dry friction of every velocity coordinate [N m] or [N]; zero where the file disables it."""
    disabled = constraints_disabled(raw, "FRICTIONLOSS")
    return tuple(0.0 if disabled else float(value) for value in raw.dof_frictionloss)


def equalities(raw: mujoco.MjModel, tree: Tree, pose: RestPose) -> tuple[Equality, ...]:
    """Return the equality constraints that are active at the start; those that nothing can move are left out."""
    if constraints_disabled(raw, "EQUALITY"):
        return ()
    return tuple(_equalities(raw, tree, pose))


def _equalities(raw: mujoco.MjModel, tree: Tree, pose: RestPose) -> Iterator[Equality]:
    for i in map(int, np.flatnonzero(raw.eq_active0)):
        match raw.eq_type[i]:
            case EQUALITY.mjEQ_JOINT:
                yield _joint_equality(raw, tree, pose, i)
            case EQUALITY.mjEQ_TENDON:
                yield _tendon_equality(raw, i)
            case EQUALITY.mjEQ_CONNECT | EQUALITY.mjEQ_WELD:
                yield from _pose_equality(raw, tree, pose, i)


def _joint_equality(raw: mujoco.MjModel, tree: Tree, pose: RestPose, i: int) -> JointEquality:
    joints = {joint.v: joint for link in tree.links for joint in link.joints}
    polynomial = _polynomial(raw, i)

    def joint(index: int) -> Joint:
        return joints[int(raw.jnt_dofadr[index])]

    first = joint(int(raw.eq_obj1id[i]))
    second = joint(int(raw.eq_obj2id[i])) if raw.eq_obj2id[i] >= 0 else None
    jacobian = np.zeros((1, raw.nv))
    jacobian[0, first.v] = 1.0
    if second is not None:
        jacobian[0, second.v] -= polynomial[1]
    return JointEquality(
        name=element_name(raw, "equality", i),
        first=first,
        second=second,
        polynomial=polynomial,
        effective_mass=1.0 / pose.inverse_mass(jacobian),
    )


def _tendon_equality(raw: mujoco.MjModel, i: int) -> TendonEquality:
    polynomial = _polynomial(raw, i)
    first, second = int(raw.eq_obj1id[i]), int(raw.eq_obj2id[i])
    inverse = float(raw.tendon_invweight0[first])
    if second >= 0:
        inverse += polynomial[1] ** 2 * float(raw.tendon_invweight0[second])
    return TendonEquality(
        name=element_name(raw, "equality", i),
        first=element_name(raw, "tendon", first),
        second=element_name(raw, "tendon", second) if second >= 0 else None,
        references=(float(raw.tendon_length0[first]), float(raw.tendon_length0[second]) if second >= 0 else 0.0),
        polynomial=polynomial,
        effective_mass=1.0 / inverse if inverse else 0.0,
    )


def _pose_equality(raw: mujoco.MjModel, tree: Tree, pose: RestPose, i: int) -> Iterator[Connect | Weld]:
    welded = raw.eq_type[i] == EQUALITY.mjEQ_WELD
    ends = _site_frames(raw, tree, i) if _uses_sites(raw, i) else _body_frames(raw, tree, i, welded)
    (first, first_body), (second, second_body) = ends
    translations, rotations = zip(pose.jacobians(first, first_body), pose.jacobians(second, second_body), strict=True)
    name = element_name(raw, "equality", i)
    inverse_mass = pose.inverse_mass(translations[0] - translations[1])
    inverse_inertia = pose.inverse_mass(rotations[0] - rotations[1])
    mass = 1.0 / inverse_mass if inverse_mass else 0.0
    inertia = 1.0 / inverse_inertia if inverse_inertia else 0.0
    if first.link == second.link or not (inverse_mass or inverse_inertia):
        return
    if welded and raw.eq_data[i, TORQUE_SCALE]:
        yield Weld(name=name, first=first, second=second, effective_mass=mass, effective_inertia=inertia)
    else:  # a weld with a torquescale of 0 does not hold rotations
        yield Connect(name=name, first=first, second=second, effective_mass=mass)


def note_constraints(raw: mujoco.MjModel, constraints: Collection[Equality], notes: Notes) -> None:
    """Note that equality constraints and dry friction are approximated, and which of their settings are not read."""
    if constraints:
        active = np.flatnonzero(raw.eq_active0)
        welds = active[raw.eq_type[active] == EQUALITY.mjEQ_WELD]
        unread = {
            "solref or solimp": count_unusual(raw.eq_solref[active], raw.eq_solimp[active]),
            "torquescale": sum(scale not in (0.0, 1.0) for scale in raw.eq_data[welds, TORQUE_SCALE]),
        }
        listed = ", ".join(f"{name} ({count})" for name, count in unread.items() if count)
        ending = f"; {listed} not read" if listed else ""
        notes.add(f"equality constraints ({len(constraints)}) act as stiff, damped springs{ending}")
    if constraints_disabled(raw, "FRICTIONLOSS"):
        return
    for what, losses, solref, solimp in (
        ("({} coordinates)", raw.dof_frictionloss, raw.dof_solref, raw.dof_solimp),
        ("of tendons ({})", raw.tendon_frictionloss, raw.tendon_solref_fri, raw.tendon_solimp_fri),
    ):
        rubbing = losses > 0.0
        if rubbing.any():
            unusual = count_unusual(solref[rubbing], solimp[rubbing])
            ending = f"; solref or solimp ({unusual}) not read" if unusual else ""
            notes.add(f"dry friction {what.format(int(rubbing.sum()))} is smooth near zero speed{ending}")


def _uses_sites(raw: mujoco.MjModel, i: int) -> bool:
    return raw.eq_objtype[i] == mujoco.mjtObj.mjOBJ_SITE


def _site_frames(raw: mujoco.MjModel, tree: Tree, i: int) -> list[tuple[Frame, int]]:
    """Return the frames of the two sites that a constraint joins, each with the body that carries its link."""
    sites = (int(raw.eq_obj1id[i]), int(raw.eq_obj2id[i]))
    return [(site_frame(raw, tree, site), _carrier(raw, int(raw.site_bodyid[site]))) for site in sites]


def _body_frames(raw: mujoco.MjModel, tree: Tree, i: int, welded: bool) -> list[tuple[Frame, int]]:
    """Return the frames on two bodies that a constraint makes coincide, each with the body that carries its link.

    MuJoCo's data of a connect constraint are the anchors on both bodies; those of a weld the anchor on the second body,
    and the pose of the second body's anchor relative to the first body.
    """
    data = raw.eq_data[i]
    anchors = (data[3:6], data[0:3]) if welded else (data[0:3], data[3:6])
    turned = data[6:10] if welded else IDENTITY_QUATERNION
    frames = []
    for body, anchor, rotation in zip(
        (int(raw.eq_obj1id[i]), int(raw.eq_obj2id[i])), anchors, (turned, IDENTITY_QUATERNION), strict=True
    ):
        frames.append((frame_on(tree.frames[body], anchor, rotation), _carrier(raw, body)))
    return frames


def _carrier(raw: mujoco.MjModel, body: int) -> int:
    """Return the body with joints that a body moves with; the world if it does not move."""
    return int(raw.body_weldid[body])


def _polynomial(raw: mujoco.MjModel, i: int) -> Polynomial:
    a, b, c, d, e = (float(value) for value in raw.eq_data[i, :5])
    return a, b, c, d, e
