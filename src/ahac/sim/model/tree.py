# pyright: reportAttributeAccessIssue=false
"""Convert MuJoCo's bodies to links: merge bodies that do not move relative to their parents, split free joints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import mujoco
import numpy as np

from ahac.sim.model.types import WORLD, FileBody, Frame, InertiaBox, Joint, JointKind, JointLimit, Link, Matrix, Vector
from ahac.sim.model.unsupported import constraints_disabled, disabled, element_name

__all__ = [
    "Tree",
    "box_of",
    "build_tree",
    "coefficients",
    "file_body",
    "floats",
    "frame_on",
    "matrix",
    "pair",
    "rotation_matrix",
    "site_frame",
    "vector",
]

AXES: tuple[Vector, ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
ORIGIN: Vector = (0.0, 0.0, 0.0)
IDENTITY: Matrix = (AXES[0], AXES[1], AXES[2])


@dataclass
class Tree:
    """Links, and for every body of the file its frame on a link."""

    links: list[Link] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    """Indexed by MuJoCo's body number."""


def build_tree(model: mujoco.MjModel, limit_of: Callable[[str], JointLimit]) -> Tree:
    """Build the links of a model, parents first."""
    tree = Tree(frames=[Frame(link=WORLD, position=ORIGIN, rotation=IDENTITY)])
    owner: dict[int, int] = {}
    for body in range(1, model.nbody):
        base = frame_on(tree.frames[model.body_parentid[body]], model.body_pos[body], model.body_quat[body])
        if model.body_jntnum[body]:
            owner[body] = len(owner)
            tree.frames.append(Frame(link=owner[body], position=ORIGIN, rotation=IDENTITY))
        else:
            tree.frames.append(base)
    for body, index in owner.items():
        joints = _joints(model, body, limit_of)
        base = frame_on(tree.frames[model.body_parentid[body]], model.body_pos[body], model.body_quat[body])
        if model.jnt_type[model.body_jntadr[body]] == mujoco.mjtJoint.mjJNT_FREE:
            # A free joint's coordinates are absolute: the pose in the file is only its initial one.
            base = Frame(link=WORLD, position=ORIGIN, rotation=IDENTITY)
        mass, center, moments, principal = _merged_inertia(
            model, [b for b, p in enumerate(tree.frames) if p.link == index], tree
        )
        tree.links.append(
            Link(
                name=element_name(model, "body", body),
                parent=base.link,
                position=base.position,
                rotation=base.rotation,
                joints=joints,
                mass=mass,
                center_of_mass=center,
                moments=moments,
                principal=principal,
            )
        )
    return tree


def site_frame(model: mujoco.MjModel, tree: Tree, site: int) -> Frame:
    """Return the frame of a site on its link."""
    return frame_on(tree.frames[model.site_bodyid[site]], model.site_pos[site], model.site_quat[site])


def frame_on(parent: Frame, position: np.ndarray, quaternion: np.ndarray) -> Frame:
    """Convert a pose relative to `parent` to a frame on the parent's link."""
    rotation = np.array(parent.rotation)
    return Frame(
        link=parent.link,
        position=vector(np.array(parent.position) + rotation @ position),
        rotation=matrix(rotation @ rotation_matrix(quaternion)),
    )


def rotation_matrix(quaternion: np.ndarray) -> np.ndarray:
    """Return the rotation matrix [3, 3] of a quaternion (w, x, y, z)."""
    out = np.zeros(9)
    mujoco.mju_quat2Mat(out, np.asarray(quaternion, dtype=np.float64))
    return out.reshape(3, 3)


def floats(values: np.ndarray) -> tuple[float, ...]:
    """Convert to plain floats."""
    return tuple(float(v) for v in values)


def vector(values: np.ndarray) -> Vector:
    """Convert to three plain floats."""
    x, y, z = (float(v) for v in values)
    return x, y, z


def matrix(values: np.ndarray) -> Matrix:
    """Convert to three rows, without rounding noise around −1, 0 and 1: exact zeros and ones are free once traced."""
    near = np.round(values)
    x, y, z = np.where(np.abs(values - near) < 1e-14, near + 0.0, values)
    return vector(x), vector(y), vector(z)


def box_of(model: mujoco.MjModel, body: int, body_frame: Frame) -> InertiaBox:
    """Return the solid box with a body's mass and inertia."""
    frame = frame_on(body_frame, model.body_ipos[body], model.body_iquat[body])
    spread = model.body_inertia[body].sum() - 2.0 * model.body_inertia[body]
    edges = np.sqrt(np.maximum(spread, 0.0) * 6.0 / model.body_mass[body])
    name = element_name(model, "body", body)
    return InertiaBox(link=frame.link, center=frame.position, axes=frame.rotation, edges=vector(edges), body=name)


def file_body(model: mujoco.MjModel, body: int, body_frame: Frame) -> FileBody:
    """Return a body as the file defines it."""
    joints = int(model.body_jntnum[body])
    first = int(model.body_jntadr[body])
    return FileBody(
        link=body_frame.link,
        parent=element_name(model, "body", int(model.body_parentid[body])),
        position=vector(model.body_pos[body]),
        mass=float(model.body_mass[body]),
        center_of_mass=vector(model.body_ipos[body]),
        moments=vector(model.body_inertia[body]),
        principal=matrix(rotation_matrix(model.body_iquat[body])),
        gravity_compensation=float(model.body_gravcomp[body]),
        jointed=joints > 0,
        free=joints > 0 and bool(model.jnt_type[first] == mujoco.mjtJoint.mjJNT_FREE),
    )


def _joints(model: mujoco.MjModel, body: int, limit_of: Callable[[str], JointLimit]) -> tuple[Joint, ...]:
    joints: list[Joint] = []
    first = model.body_jntadr[body]
    for j in range(first, first + model.body_jntnum[body]):
        joints += _elementary(model, j, limit_of)
    return tuple(joints)


def _elementary(model: mujoco.MjModel, j: int, limit_of: Callable[[str], JointLimit]) -> list[Joint]:
    """Split a joint of the file into hinges, slides and balls."""
    name = element_name(model, "joint", j)
    q, v = int(model.jnt_qposadr[j]), int(model.jnt_dofadr[j])
    spring = model.qpos_spring
    limited = model.jnt_limited[j] and not constraints_disabled(model, "LIMIT")
    joint = Joint(
        name=name,
        kind=JointKind.BALL,
        axis=AXES[2],
        anchor=ORIGIN,
        q=q,
        v=v,
        stiffness=0.0 if disabled(model, "SPRING") else float(model.jnt_stiffness[j]),
        limit=limit_of(name),
        inertia=_inertia(model, v),
        stiffness_slopes=() if disabled(model, "SPRING") else coefficients(model, "jnt_stiffness", j)[1:],
        compensated=bool(model.jnt_actgravcomp[j]),
    )
    match model.jnt_type[j]:
        case mujoco.mjtJoint.mjJNT_FREE:
            slides = [
                replace(
                    joint,
                    name=f"{name}:{letter}",
                    kind=JointKind.SLIDE,
                    axis=AXES[k],
                    q=q + k,
                    v=v + k,
                    spring_reference=(float(spring[q + k]),),
                    spring_dofs=(v, v + 1, v + 2),
                    inertia=_inertia(model, v + k),
                )
                for k, letter in enumerate("xyz")
            ]
            rest = floats(spring[q + 3 : q + 7])
            return [*slides, replace(joint, q=q + 3, v=v + 3, spring_reference=rest, inertia=_inertia(model, v + 3))]
        case mujoco.mjtJoint.mjJNT_BALL:
            anchor, rest = vector(model.jnt_pos[j]), floats(spring[q : q + 4])
            largest = (0.0, float(max(model.jnt_range[j]))) if limited else None
            return [replace(joint, anchor=anchor, spring_reference=rest, range=largest)]
        case kind:
            single = replace(
                joint,
                kind=JointKind.HINGE if kind == mujoco.mjtJoint.mjJNT_HINGE else JointKind.SLIDE,
                axis=matrix(np.tile(model.jnt_axis[j], (3, 1)))[0],
                anchor=vector(model.jnt_pos[j]),
                reference=float(model.qpos0[q]),
                spring_reference=(float(spring[q]),),
                range=pair(model.jnt_range[j]) if limited else None,
                force_range=pair(model.jnt_actfrcrange[j]) if model.jnt_actfrclimited[j] else None,
            )
            return [single]


def _inertia(model: mujoco.MjModel, v: int) -> float:
    """Return the inertia that a force on a velocity coordinate accelerates in the reference pose."""
    return 1.0 / float(model.dof_invweight0[v]) if model.dof_invweight0[v] > 0 else 0.0


def coefficients(model: mujoco.MjModel, field: str, i: int) -> tuple[float, ...]:
    """Return the polynomial coefficients of a stiffness or damping, without trailing zeros; the linear one first."""
    if not hasattr(model, field):
        return ()
    higher = np.asarray(getattr(model, f"{field}poly", np.zeros((i + 1, 0))))[i]
    return floats(np.trim_zeros(np.array([getattr(model, field)[i], *higher]), "b"))


def pair(bounds: np.ndarray) -> tuple[float, float]:
    """Convert to two plain floats."""
    return float(bounds[0]), float(bounds[1])


def _merged_inertia(model: mujoco.MjModel, bodies: list[int], tree: Tree) -> tuple[float, Vector, Vector, Matrix]:
    """Return mass, center of mass, principal moments (ascending) and principal axes of bodies that move as one."""
    frames = [frame_on(tree.frames[b], model.body_ipos[b], model.body_iquat[b]) for b in bodies]
    masses = [float(model.body_mass[b]) for b in bodies]
    centers = [np.array(frame.position) for frame in frames]
    center = np.average(centers, axis=0, weights=masses)
    tensor = np.zeros((3, 3))
    for b, frame, mass, c in zip(bodies, frames, masses, centers, strict=True):
        axes, arm = np.array(frame.rotation), c - center
        tensor += axes @ np.diag(model.body_inertia[b]) @ axes.T + mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    moments, axes = np.linalg.eigh(tensor)
    return sum(masses), vector(center), vector(moments), matrix(axes)
