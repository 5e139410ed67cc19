"""Kinematics and contact of a tree of joints in numpy, written link by link from the textbook; nothing is traced.

Spatial vectors are (angular; linear) about the world's origin. A free joint is three slides and a ball; only balls and
points touch planes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ahac.sim import Model
from ahac.sim.model.types import ContactCandidate, ContactConstants, Joint, JointKind
from ahac.sim.physics.contact import SLIP_FLOOR

Array = np.ndarray


def skew(a: Array) -> Array:
    """The matrix of a×."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def crm(a: Array) -> Array:
    """The matrix of the motion cross product."""
    return np.block([[skew(a[:3]), np.zeros((3, 3))], [skew(a[3:]), skew(a[:3])]])


def crf(a: Array) -> Array:
    """The matrix of the force cross product, its dual."""
    return -crm(a).T


def turned(axis: Array, angle: float) -> Array:
    """Rotation matrix, by Rodrigues."""
    k = skew(axis)
    return np.eye(3) + np.sin(angle) * k + (1.0 - np.cos(angle)) * k @ k


def quaternion_matrix(q: Array) -> Array:
    """Rotation matrix of a unit quaternion."""
    k = skew(q[1:])
    return np.eye(3) + 2.0 * q[0] * k + 2.0 * k @ k


def at(x: Array, force: Array) -> Array:
    """A force at a point as a wrench about the origin."""
    return np.concatenate([np.cross(x, force), force])


def law(candidate: ContactCandidate, depth: float, u: Array) -> tuple[Array, Array, Array]:
    """Force, ∂force/∂depth and ∂force/∂u of the penalty law."""
    m, n = candidate.material, np.array(candidate.plane.normal)
    assert isinstance(m, ContactConstants)
    if depth <= 0.0:
        return np.zeros(3), np.zeros(3), np.zeros((3, 3))
    closing, along = min(u @ n, 0.0), np.eye(3) - np.outer(n, n)
    slip = along @ u
    speed = np.sqrt(slip @ slip + SLIP_FLOOR)
    by_depth = n * (m.stiffness - m.damping * closing)
    by_u = -np.outer(n, n) * m.damping * depth * (closing < 0.0)
    normal, bound = depth * by_depth, m.friction * m.stiffness * depth
    if m.viscosity * speed < bound:
        return normal - m.viscosity * slip, by_depth, by_u - m.viscosity * along
    by_depth = by_depth - slip * (m.friction * m.stiffness / speed)
    return normal - slip * bound / speed, by_depth, by_u - bound / speed * (along - np.outer(slip, slip) / speed**2)


@dataclass
class Pass:
    """Columns per joint, and per link: pose, spatial inertia, V, A (with a), W."""

    columns: dict[int, Array] = field(default_factory=dict)
    """[6, 1 or 3] by the joint's first velocity index."""
    before: dict[int, Array] = field(default_factory=dict)
    """V before the joint, by the same index."""
    rotation: list[Array] = field(default_factory=list)
    position: list[Array] = field(default_factory=list)
    V: list[Array] = field(default_factory=list)
    A: list[Array] = field(default_factory=list)
    W: list[Array] = field(default_factory=list)
    chain: list[Array] = field(default_factory=list)
    """[6, nv]: the columns each link rides on."""
    inertia: list[Array] = field(default_factory=list)


def move(joint: Joint, q: Array, R: Array, p: Array) -> tuple[Array, Array, Array]:
    """Columns of a joint, and the frame behind it."""
    axis, anchor = R @ np.array(joint.axis), p + R @ np.array(joint.anchor)
    if joint.kind is JointKind.SLIDE:
        return np.concatenate([np.zeros(3), axis])[:, None], R, p + axis * (q[joint.q] - joint.reference)
    if joint.kind is JointKind.HINGE:
        R = R @ turned(np.array(joint.axis), q[joint.q] - joint.reference)
        axes = axis[:, None]
    else:
        R = R @ quaternion_matrix(q[joint.q : joint.q + 4])
        axes = R
    return np.vstack([axes, skew(anchor) @ axes]), R, anchor - R @ np.array(joint.anchor)


def forward(model: Model, q: Array, v: Array, a: Array, lam: Array) -> Pass:
    """Root to leaf: V = V_p + S v, A = A_p + S a + crm(V_p) S v, W = W_p + S λ."""
    out = Pass()
    for link in model.links:
        i = link.parent
        R, p = (out.rotation[i], out.position[i]) if i >= 0 else (np.eye(3), np.zeros(3))
        V, W = (out.V[i], out.W[i]) if i >= 0 else (np.zeros(6), np.zeros(6))
        A = out.A[i] if i >= 0 else np.concatenate([np.zeros(3), -np.array(model.gravity)])
        J = out.chain[i].copy() if i >= 0 else np.zeros((6, model.nv))
        p, R = p + R @ np.array(link.position), R @ np.array(link.rotation)
        for joint in link.joints:
            S, R, p = move(joint, q, R, p)
            k = list(joint.dofs)
            out.columns[joint.v], out.before[joint.v], J[:, k] = S, V, S
            A = A + S @ a[k] + crm(V) @ S @ v[k]
            V, W = V + S @ v[k], W + S @ lam[k]
        c = skew(p + R @ np.array(link.center_of_mass))
        axes = R @ np.array(link.principal)
        turning = axes @ np.diag(link.moments) @ axes.T - link.mass * c @ c
        inertia = np.block([[turning, link.mass * c], [-link.mass * c, link.mass * np.eye(3)]])
        mine = {"rotation": R, "position": p, "V": V, "A": A, "W": W, "chain": J, "inertia": inertia}
        for name, value in mine.items():
            getattr(out, name).append(value)
    return out


def contact_state(candidate: ContactCandidate, state: Pass) -> tuple[Array, Array, float, Array]:
    """Center, lowest point, depth and velocity of a ball over a plane."""
    i, n = candidate.link, np.array(candidate.plane.normal)
    center = state.position[i] + state.rotation[i] @ np.array(candidate.center)
    x = center - candidate.radius * n
    return center, x, float(candidate.plane.offset - n @ x), state.V[i][3:] + np.cross(state.V[i][:3], x)
