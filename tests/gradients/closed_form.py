"""The adjoint of one substep by hand, in numpy: what the derived one must agree with.

    M a = τ − bias,   v' = v + h a,   q' = q ⊕ h v'        λ = M⁻¹ h v̄',   (q̄, v̄) −= ∂/∂(q, v) ( Σ W_i · f_i − λ·τ )

with W_i the virtual velocity that λ gives link i, f_i = I_i A_i + crf(V_i) I_i V_i − contact_i, and λ and a held fixed.
Spatial vectors are (angular; linear) about the world's origin. Adjoints of rotations live in the tangent space: three
numbers per ball, for a perturbation q ⊗ (1, δ/2). Covers hinges, slides and balls (a free joint is three slides and a
ball), damping, armature, limits, motors, and balls that touch planes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ahac.sim import Model
from ahac.sim.model.records import Joint, JointKind, Touch
from ahac.sim.physics.contact import SLIP_FLOOR

BALL, HINGE = JointKind.BALL, JointKind.HINGE
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


def tangent(q: Array) -> Array:
    """[4, 3]: how the quaternion changes with δ, q ⊗ (0, δ/2)."""
    return 0.5 * np.vstack([-q[1:], q[0] * np.eye(3) + skew(q[1:])])


def right_jacobian(w: Array) -> Array:
    """Exp(w + δ) = Exp(w) Exp(J δ) to first order."""
    angle, k = np.linalg.norm(w), skew(w)
    return np.eye(3) - (1.0 - np.cos(angle)) / angle**2 * k + (angle - np.sin(angle)) / angle**3 * k @ k


def at(x: Array, force: Array) -> Array:
    """A force at a point as a wrench about the origin."""
    return np.concatenate([np.cross(x, force), force])


def law(touch: Touch, depth: float, u: Array) -> tuple[Array, Array, Array]:
    """Force, ∂force/∂depth and ∂force/∂u of the penalty law."""
    m, n = touch.material, np.array(touch.plane.normal)
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
    if joint.kind is HINGE:
        R, axes = R @ turned(np.array(joint.axis), q[joint.q] - joint.reference), axis[:, None]
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
        c, axes = skew(p + R @ np.array(link.centre)), R @ np.array(link.principal)
        turning = axes @ np.diag(link.moments) @ axes.T - link.mass * c @ c
        inertia = np.block([[turning, link.mass * c], [-link.mass * c, link.mass * np.eye(3)]])
        mine = {"rotation": R, "position": p, "V": V, "A": A, "W": W, "chain": J, "inertia": inertia}
        for name, value in mine.items():
            getattr(out, name).append(value)
    return out


def joint_forces(model: Model, q: Array, v: Array, u: Array, f: Array) -> tuple[Array, Array, Array, Array]:
    """τ, and how it changes with hinge and slide positions [nv], with velocities [nv] and with controls [nv, nu]."""
    by_u = np.zeros((model.nv, model.nu))
    for n, actuator in enumerate(model.actuators):
        for k, gear in actuator.dofs:
            by_u[k, n] = gear * actuator.gain
    by_q, by_v, push = np.zeros(model.nv), -np.array(model.damping), np.zeros(model.nv)
    for joint in model.joints:
        if joint.range is not None:
            bound = np.clip(q[joint.q], *joint.range)
            if bound != q[joint.q]:
                push[joint.v] = joint.limit.stiffness * (bound - q[joint.q])
                by_q[joint.v] -= joint.limit.stiffness
                by_v[joint.v] -= joint.limit.damping
    return f + by_u @ u + push + by_v * v, by_q, by_v, by_u


def touch_down(touch: Touch, state: Pass) -> tuple[Array, Array, float, Array]:
    """Centre, lowest point, depth and velocity of a ball over a plane."""
    i, n = touch.link, np.array(touch.plane.normal)
    centre = state.position[i] + state.rotation[i] @ np.array(touch.centre)
    x = centre - touch.radius * n
    return centre, x, touch.plane.offset - n @ x, state.V[i][3:] + np.cross(state.V[i][:3], x)


def solve(model: Model, q: Array, v: Array, u: Array, f: Array) -> tuple[Array, Array]:
    """a and M, by summing over links instead of along the tree."""
    still = np.zeros(model.nv)
    state, tau = forward(model, q, v, still, still), joint_forces(model, q, v, u, f)[0]
    M = np.diag(model.armature).astype(float)
    for V, A, J, inertia in zip(state.V, state.A, state.chain, state.inertia, strict=True):
        M += J.T @ inertia @ J
        tau = tau - J.T @ (inertia @ A + crf(V) @ inertia @ V)
    for touch in model.touches:
        _, x, depth, speed = touch_down(touch, state)
        tau = tau + state.chain[touch.link].T @ at(x, law(touch, depth, speed)[0])
    return np.linalg.solve(M, tau), M


def adjoint(model: Model, x: dict[str, Array], h: float, q_bar: Array, v_bar: Array) -> dict[str, Array]:
    """From the tangent-space adjoints q̄', v̄' [nv] of a substep's outcome to those of q, v, u, f."""
    q, v, u, f = (x[name] for name in ("q", "v", "u", "f"))
    a, M = solve(model, q, v, u, f)
    q_bar, v_bar, w = q_bar.copy(), v_bar.copy(), h * (v + h * a)
    for joint in model.joints:
        k = list(joint.dofs)
        if joint.kind is BALL:
            angle = np.linalg.norm(w[k])
            v_bar[k] += h * right_jacobian(w[k]).T @ q_bar[k]
            q_bar[k] = turned(w[k] / angle, float(angle)) @ q_bar[k]
        else:
            v_bar[k] += h * q_bar[k]
    lam = np.linalg.solve(M, h * v_bar)
    _, by_q, by_v, by_u = joint_forces(model, q, v, u, f)
    L_q, L_v = virtual_power_gradient(model, forward(model, q, v, a, lam), v, a, lam)
    return {"q": q_bar - L_q + by_q * lam, "v": v_bar - L_v + by_v * lam, "u": by_u.T @ lam, "f": lam}


def virtual_power_gradient(model: Model, state: Pass, v: Array, a: Array, lam: Array) -> tuple[Array, Array]:
    """∂/∂(q, v) of Σ W_i · f_i: reverse pass over links and contacts, then leaf to root."""
    V_bar, A_bar, W_bar, g = ([np.zeros(6) for _ in model.links] for _ in range(4))
    for i, (V, A, W, inertia) in enumerate(zip(state.V, state.A, state.W, state.inertia, strict=True)):
        U, momentum, virtual = crm(V) @ W, inertia @ V, inertia @ W
        W_bar[i] += inertia @ A + crf(V) @ momentum
        A_bar[i] += virtual
        V_bar[i] += -crf(W) @ momentum - inertia @ U
        g[i] += -crf(W) @ inertia @ A - crf(A) @ virtual + crf(U) @ momentum + crf(V) @ inertia @ U
    for touch in model.touches:
        i, n = touch.link, np.array(touch.plane.normal)
        centre, x, depth, speed = touch_down(touch, state)
        force, by_depth, by_speed = law(touch, depth, speed)
        f_bar = -(state.W[i][3:] + np.cross(state.W[i][:3], x))
        u_bar = by_speed.T @ f_bar
        x_bar = -n * (by_depth @ f_bar) + np.cross(u_bar, state.V[i][:3]) - np.cross(force, state.W[i][:3])
        V_bar[i] += at(x, u_bar)
        W_bar[i] -= at(x, force)
        g[i] += at(centre, x_bar)
    L_q, L_v = np.zeros(model.nv), np.zeros(model.nv)
    for i in reversed(range(len(model.links))):
        for joint in reversed(model.links[i].joints):
            k, S, V = list(joint.dofs), state.columns[joint.v], state.before[joint.v]
            S_bar = np.outer(V_bar[i] - crf(V) @ A_bar[i], v[k]) + np.outer(A_bar[i], a[k]) + np.outer(W_bar[i], lam[k])
            carried = sum(crf(column) @ bar for column, bar in zip(S.T, S_bar.T, strict=True))
            # A ball's own turning moves its axes, which are the body's; a hinge's or slide's does not.
            L_q[k] = S.T @ (g[i] + carried if joint.kind is BALL else g[i])
            L_v[k] = S.T @ V_bar[i] + (crm(V) @ S).T @ A_bar[i]
            V_bar[i], g[i] = V_bar[i] + crf(S @ v[k]) @ A_bar[i], g[i] + carried
        if (parent := model.links[i].parent) >= 0:
            for bars in (V_bar, A_bar, W_bar, g):
                bars[parent] = bars[parent] + bars[i]
    return L_q, L_v
