"""The adjoint of one substep by hand, in numpy: what the derived one must agree with.

    M a = τ − bias,   v' = v + h a,   q' = q ⊕ h v'        λ = M⁻¹ h v̄',   (q̄, v̄) −= ∂/∂(q, v) ( Σ W_i · f_i − λ·τ )

with W_i the virtual velocity that λ gives link i, f_i = I_i A_i + crf(V_i) I_i V_i − contact_i, and λ and a held fixed.
Adjoints of rotations live in the tangent space: three numbers per ball, for a perturbation q ⊗ (1, δ/2). Covers hinges,
slides and balls, damping, armature, limits, motors, and balls that touch planes.
"""

from __future__ import annotations

import numpy as np

from ahac.sim import Model
from ahac.sim.model.types import JointKind
from gradients.textbook import Array, Pass, at, contact_state, crf, crm, forward, law, skew, turned


def tangent(q: Array) -> Array:
    """[4, 3]: how the quaternion changes with δ, q ⊗ (0, δ/2)."""
    return 0.5 * np.vstack([-q[1:], q[0] * np.eye(3) + skew(q[1:])])


def right_jacobian(w: Array) -> Array:
    """Exp(w + δ) = Exp(w) Exp(J δ) to first order."""
    angle, k = np.linalg.norm(w), skew(w)
    return np.eye(3) - (1.0 - np.cos(angle)) / angle**2 * k + (angle - np.sin(angle)) / angle**3 * k @ k


def joint_forces(model: Model, q: Array, v: Array, u: Array, f: Array) -> tuple[Array, Array, Array, Array]:
    """τ, and how it changes with hinge and slide positions [nv], with velocities [nv] and with controls [nv, nu]."""
    by_u = np.zeros((model.nv, model.nu))
    for n, actuator in enumerate(model.actuators):
        for k, gear in actuator.dofs:
            by_u[k, n] = gear * actuator.gain
    by_q = np.zeros(model.nv)
    by_v = -np.array(model.damping)
    push = np.zeros(model.nv)
    for joint in model.joints:
        if joint.range is not None:
            bound = float(np.clip(q[joint.q], *joint.range))
            if bound != q[joint.q]:
                push[joint.v] = joint.limit.stiffness * (bound - q[joint.q])
                by_q[joint.v] -= joint.limit.stiffness
                by_v[joint.v] -= joint.limit.damping
    return f + by_u @ u + push + by_v * v, by_q, by_v, by_u


def solve(model: Model, q: Array, v: Array, u: Array, f: Array) -> tuple[Array, Array]:
    """a and M, by summing over links instead of along the tree."""
    still = np.zeros(model.nv)
    state = forward(model, q, v, still, still)
    tau = joint_forces(model, q, v, u, f)[0]
    M = np.diag(model.armature).astype(float)
    for V, A, J, inertia in zip(state.V, state.A, state.chain, state.inertia, strict=True):
        M += J.T @ inertia @ J
        tau = tau - J.T @ (inertia @ A + crf(V) @ inertia @ V)
    for candidate in model.contact_candidates:
        _, x, depth, speed = contact_state(candidate, state)
        tau = tau + state.chain[candidate.link].T @ at(x, law(candidate, depth, speed)[0])
    return np.linalg.solve(M, tau), M


def adjoint(model: Model, x: dict[str, Array], h: float, q_bar: Array, v_bar: Array) -> dict[str, Array]:
    """From the tangent-space adjoints q̄', v̄' [nv] of a substep's outcome to those of q, v, u, f."""
    q, v, u, f = (x[name] for name in ("q", "v", "u", "f"))
    a, M = solve(model, q, v, u, f)
    q_bar, v_bar = through_integration(model, h * (v + h * a), h, q_bar, v_bar)
    lam = np.linalg.solve(M, h * v_bar)
    _, by_q, by_v, by_u = joint_forces(model, q, v, u, f)
    L_q, L_v = virtual_power_gradient(model, forward(model, q, v, a, lam), v, a, lam)
    return {"q": q_bar - L_q + by_q * lam, "v": v_bar - L_v + by_v * lam, "u": by_u.T @ lam, "f": lam}


def through_integration(model: Model, w: Array, h: float, q_bar: Array, v_bar: Array) -> tuple[Array, Array]:
    """From the adjoints of q ⊕ w and v' to those of q and v', with w = h v'."""
    q_bar, v_bar = q_bar.copy(), v_bar.copy()
    for joint in model.joints:
        k = list(joint.dofs)
        if joint.kind is JointKind.BALL:
            angle = np.linalg.norm(w[k])
            v_bar[k] += h * right_jacobian(w[k]).T @ q_bar[k]
            q_bar[k] = turned(w[k] / angle, float(angle)) @ q_bar[k]
        else:
            v_bar[k] += h * q_bar[k]
    return q_bar, v_bar


def virtual_power_gradient(model: Model, state: Pass, v: Array, a: Array, lam: Array) -> tuple[Array, Array]:
    """∂/∂(q, v) of Σ W_i · f_i: reverse pass over links and contacts, then leaf to root."""
    V_bar, A_bar, W_bar, g = ([np.zeros(6) for _ in model.links] for _ in range(4))
    for i, (V, A, W, inertia) in enumerate(zip(state.V, state.A, state.W, state.inertia, strict=True)):
        U = crm(V) @ W
        momentum = inertia @ V
        virtual = inertia @ W
        W_bar[i] += inertia @ A + crf(V) @ momentum
        A_bar[i] += virtual
        V_bar[i] += -crf(W) @ momentum - inertia @ U
        g[i] += -crf(W) @ inertia @ A - crf(A) @ virtual + crf(U) @ momentum + crf(V) @ inertia @ U
    for candidate in model.contact_candidates:
        i, n = candidate.link, np.array(candidate.plane.normal)
        center, x, depth, speed = contact_state(candidate, state)
        force, by_depth, by_speed = law(candidate, depth, speed)
        f_bar = -(state.W[i][3:] + np.cross(state.W[i][:3], x))
        u_bar = by_speed.T @ f_bar
        x_bar = -n * (by_depth @ f_bar) + np.cross(u_bar, state.V[i][:3]) - np.cross(force, state.W[i][:3])
        V_bar[i] += at(x, u_bar)
        W_bar[i] -= at(x, force)
        g[i] += at(center, x_bar)
    L_q, L_v = np.zeros(model.nv), np.zeros(model.nv)
    for i in reversed(range(len(model.links))):
        for joint in reversed(model.links[i].joints):
            k = list(joint.dofs)
            S = state.columns[joint.v]
            V = state.before[joint.v]
            S_bar = np.outer(V_bar[i] - crf(V) @ A_bar[i], v[k]) + np.outer(A_bar[i], a[k]) + np.outer(W_bar[i], lam[k])
            carried = np.sum([crf(column) @ bar for column, bar in zip(S.T, S_bar.T, strict=True)], axis=0)
            # A ball's own turning moves its axes, which are the body's; a hinge's or slide's does not.
            L_q[k] = S.T @ (g[i] + carried if joint.kind is JointKind.BALL else g[i])
            L_v[k] = S.T @ V_bar[i] + (crm(V) @ S).T @ A_bar[i]
            V_bar[i], g[i] = V_bar[i] + crf(S @ v[k]) @ A_bar[i], g[i] + carried
        if (parent := model.links[i].parent) >= 0:
            for bars in (V_bar, A_bar, W_bar, g):
                bars[parent] = bars[parent] + bars[i]
    return L_q, L_v
