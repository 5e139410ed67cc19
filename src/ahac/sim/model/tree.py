# pyright: reportAttributeAccessIssue=false
"""From MuJoCo's bodies to links: merge bodies that do not move against their parents, split free joints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import mujoco
import numpy as np

from ahac.sim.model.types import WORLD, Frame, InertiaBox, Joint, JointKind, JointLimit, Link, Matrix, Vector
from ahac.sim.model.unsupported import constraints_disabled, disabled, element_name

__all__ = ["Tree", "box_of", "build_tree", "floats", "frame_on", "matrix", "pair", "rotation_matrix", "vector"]

AXES: tuple[Vector, ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
ORIGIN: Vector = (0.0, 0.0, 0.0)
IDENTITY: Matrix = (AXES[0], AXES[1], AXES[2])


@dataclass
class Tree:
    """Links, and for every body of the file the link it rides on."""

    links: list[Link] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    """Indexed by MuJoCo's body number."""


def build_tree(model: mujoco.MjModel, limit_of: Callable[[str], JointLimit]) -> Tree:
    """The links of a model, parents first."""
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
            # A free joint's coordinates are absolute: the file's placement is only where it starts.
            base = Frame(link=WORLD, position=ORIGIN, rotation=IDENTITY)
        mass, centre, moments, principal = _merged_inertia(
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
                center_of_mass=centre,
                moments=moments,
                principal=principal,
            )
        )
    return tree


def frame_on(parent: Frame, position: np.ndarray, quaternion: np.ndarray) -> Frame:
    """A frame given in the parent's frame, as a frame on the parent's link."""
    turn = np.array(parent.rotation)
    return Frame(
        link=parent.link,
        position=vector(np.array(parent.position) + turn @ position),
        rotation=matrix(turn @ rotation_matrix(quaternion)),
    )


def rotation_matrix(quaternion: np.ndarray) -> np.ndarray:
    """[3, 3] of a quaternion (w, x, y, z)."""
    out = np.zeros(9)
    mujoco.mju_quat2Mat(out, np.asarray(quaternion, dtype=np.float64))
    return out.reshape(3, 3)


def floats(values: np.ndarray) -> tuple[float, ...]:
    """Plain floats."""
    return tuple(float(v) for v in values)


def vector(values: np.ndarray) -> Vector:
    """Three floats."""
    x, y, z = (float(v) for v in values)
    return x, y, z


def matrix(values: np.ndarray) -> Matrix:
    """Three rows, with rounding noise around −1, 0 and 1 removed: exact zeros and ones cost nothing once traced."""
    near = np.round(values)
    x, y, z = np.where(np.abs(values - near) < 1e-14, near + 0.0, values)
    return vector(x), vector(y), vector(z)


def box_of(model: mujoco.MjModel, body: int, place: Frame) -> InertiaBox:
    """The solid box with a body's mass and inertia, on the link it rides on."""
    frame = frame_on(place, model.body_ipos[body], model.body_iquat[body])
    spread = model.body_inertia[body].sum() - 2.0 * model.body_inertia[body]
    edges = np.sqrt(np.maximum(spread, 0.0) * 6.0 / model.body_mass[body])
    return InertiaBox(link=place.link, center=frame.position, axes=frame.rotation, edges=vector(edges))


def _joints(model: mujoco.MjModel, body: int, limit_of: Callable[[str], JointLimit]) -> tuple[Joint, ...]:
    joints: list[Joint] = []
    first = model.body_jntadr[body]
    for j in range(first, first + model.body_jntnum[body]):
        joints += _elementary(model, j, limit_of)
    return tuple(joints)


def _elementary(model: mujoco.MjModel, j: int, limit_of: Callable[[str], JointLimit]) -> list[Joint]:
    """One joint of the file as hinges, slides and balls."""
    name = element_name(model, "joint", j)
    q = int(model.jnt_qposadr[j])
    v = int(model.jnt_dofadr[j])
    stiffness = 0.0 if disabled(model, "SPRING") else float(model.jnt_stiffness[j])
    spring = model.qpos_spring

    def ball(anchor: Vector, q: int, v: int) -> Joint:
        rest = floats(spring[q : q + 4])
        return Joint(
            name=name,
            kind=JointKind.BALL,
            axis=AXES[2],
            anchor=anchor,
            q=q,
            v=v,
            stiffness=stiffness,
            spring_reference=rest,
        )

    match model.jnt_type[j]:
        case mujoco.mjtJoint.mjJNT_FREE:
            slides = [
                Joint(
                    name=f"{name}:{letter}",
                    kind=JointKind.SLIDE,
                    axis=AXES[k],
                    anchor=ORIGIN,
                    q=q + k,
                    v=v + k,
                    stiffness=stiffness,
                    spring_reference=(float(spring[q + k]),),
                )
                for k, letter in enumerate("xyz")
            ]
            return [*slides, ball(ORIGIN, q + 3, v + 3)]
        case mujoco.mjtJoint.mjJNT_BALL:
            return [ball(vector(model.jnt_pos[j]), q, v)]
        case kind:
            limited = model.jnt_limited[j] and not constraints_disabled(model, "LIMIT")
            return [
                Joint(
                    name=name,
                    kind=JointKind.HINGE if kind == mujoco.mjtJoint.mjJNT_HINGE else JointKind.SLIDE,
                    axis=matrix(np.tile(model.jnt_axis[j], (3, 1)))[0],
                    anchor=vector(model.jnt_pos[j]),
                    q=q,
                    v=v,
                    reference=float(model.qpos0[q]),
                    stiffness=stiffness,
                    spring_reference=(float(spring[q]),),
                    range=pair(model.jnt_range[j]) if limited else None,
                    limit=limit_of(name),
                    force_range=pair(model.jnt_actfrcrange[j]) if model.jnt_actfrclimited[j] else None,
                )
            ]


def pair(bounds: np.ndarray) -> tuple[float, float]:
    """Two floats."""
    return float(bounds[0]), float(bounds[1])


def _merged_inertia(model: mujoco.MjModel, bodies: list[int], tree: Tree) -> tuple[float, Vector, Vector, Matrix]:
    """Mass, centre, principal moments (ascending) and principal axes of bodies that move as one."""
    frames = [frame_on(tree.frames[b], model.body_ipos[b], model.body_iquat[b]) for b in bodies]
    masses = [float(model.body_mass[b]) for b in bodies]
    centres = [np.array(frame.position) for frame in frames]
    centre = np.average(centres, axis=0, weights=masses)
    tensor = np.zeros((3, 3))
    for b, frame, mass, c in zip(bodies, frames, masses, centres, strict=True):
        axes, arm = np.array(frame.rotation), c - centre
        tensor += axes @ np.diag(model.body_inertia[b]) @ axes.T + mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    moments, axes = np.linalg.eigh(tensor)
    return sum(masses), vector(centre), vector(moments), matrix(axes)
