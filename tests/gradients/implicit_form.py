"""The implicit step and its adjoint as the textbook has them: dense matrices in numpy, nothing traced, no tree.

    H a = r        H = M + h D + h² K = M + Σ c J Jᵀ        r = forces at q + h v − bias

Every restoring force adds a row J of joint space with its coefficient c = h · damping + h² · stiffness. The adjoint is
that of the implicit function:  λ = H⁻¹ h v̄',  f̄ = λ,  and for the rest the derivative of −λ·(H a − r), λ and a fixed.
Covers hinges, slides and balls; balls and points that touch planes; everything that acts on joints, and constraints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ahac.sim import Actuator, Joint, Model
from ahac.sim.model.types import (
    WORLD,
    Connect,
    ContactCandidate,
    ContactConstants,
    Frame,
    JointEquality,
    JointKind,
    Weld,
)
from ahac.sim.physics.constraints import CONSTRAINT_RATE
from ahac.sim.physics.contact import SLIP_FLOOR
from ahac.sim.physics.implicit_contact import SLIP_OFFSET
from ahac.sim.physics.joints import STICTION_SPEED, STICTION_SPEED_SLIDE
from gradients.closed_form import through_integration
from gradients.textbook import Array, Pass, at, contact_state, crf, forward, skew

EPS = 1e-5
"""Of differences of fourth order, a hundredth of the smallest speed at which dry friction bends."""


@dataclass
class System:
    """H and r, to which forces are added."""

    model: Model
    h: float
    state: Pass
    q: Array
    v: Array
    matrix: Array = field(init=False)
    force: Array = field(init=False)

    def __post_init__(self) -> None:
        self.matrix = np.diag(self.model.armature).astype(float)
        self.force = np.zeros(self.model.nv)
        for V, A, J, inertia in zip(self.state.V, self.state.A, self.state.chain, self.state.inertia, strict=True):
            self.matrix += J.T @ inertia @ J
            self.force -= J.T @ (inertia @ A + crf(V) @ inertia @ V)

    def push(self, J: Array, force: float, damping: float, stiffness: float) -> None:
        """Add a force along J, and what it loses as its length and speed grow."""
        self.force += J * force
        self.matrix += (self.h * damping + self.h**2 * stiffness) * np.outer(J, J)

    def spring(self, J: Array, stretch: float, stiffness: float, damping: float) -> None:
        """Add a spring and damper along J, at the stretch that is ahead."""
        speed = float(J @ self.v)
        self.push(J, -stiffness * (stretch + self.h * speed) - damping * speed, damping, stiffness)

    def unit(self, k: int) -> Array:
        """Direction of one coordinate."""
        return np.eye(self.model.nv)[k]


def system(model: Model, x: dict[str, Array], h: float) -> System:
    """H and r of one step from q, v, u, f."""
    q, v, u, f = (x[name] for name in ("q", "v", "u", "f"))
    still = np.zeros(model.nv)
    total = System(model, h, forward(model, q, v, still, still), q, v)
    total.force += f
    for joint in model.joints:
        passive(total, joint)
        limits(total, joint)
    actuators(total, u)
    for equality in model.equalities:
        match equality:
            case JointEquality():
                coupled(total, equality)
            case Connect() | Weld():
                held(total, equality)
            case _:
                raise NotImplementedError(equality.name)
    for candidate in model.contact_candidates:
        touch(total, candidate)
    return total


def logarithm(q: Array) -> Array:
    """Rotation vector of a quaternion."""
    q = q / np.linalg.norm(q)
    q = q if q[0] >= 0.0 else -q
    sine = np.linalg.norm(q[1:])
    return 2.0 * np.arctan2(sine, q[0]) * q[1:] / sine


def product(p: Array, q: Array) -> Array:
    """Of two quaternions."""
    return np.concatenate([[p[0] * q[0] - p[1:] @ q[1:]], p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:])])


def passive(total: System, joint: Joint) -> None:
    """Damping, dry friction and a spring."""
    model, q = total.model, total.q[joint.q : joint.q + 4]
    conjugate = np.array(joint.spring_reference) * [1, -1, -1, -1] if joint.kind is JointKind.BALL else np.zeros(0)
    ball = joint.kind is JointKind.BALL and joint.stiffness
    stretch = logarithm(product(conjugate, q)) if ball else [q[0] - joint.spring_reference[0]] * 3
    floor = STICTION_SPEED_SLIDE if joint.kind is JointKind.SLIDE else STICTION_SPEED
    for k, length in zip(joint.dofs, stretch, strict=False):
        J, speed = total.unit(k), total.v[k]
        total.spring(J, 0.0, 0.0, model.damping[k])
        if joint.stiffness:
            total.spring(J, length, joint.stiffness, 0.0)
        secant = model.frictionloss[k] / np.hypot(speed, floor)
        total.push(J, -secant * speed, secant, 0.0)


def limits(total: System, joint: Joint) -> None:
    """A spring and damper beyond the range, by the position ahead."""
    if joint.range is None:
        return
    stiffness, damping = joint.limit.stiffness, joint.limit.damping
    assert stiffness is not None
    assert damping is not None
    if joint.kind is JointKind.BALL:
        turn, J = logarithm(total.q[joint.q : joint.q + 4]), np.zeros(total.model.nv)
        position = float(np.linalg.norm(turn))
        J[list(joint.dofs)] = turn / position
    else:
        position, J = float(total.q[joint.q]), total.unit(joint.v)
    ahead = position + total.h * float(J @ total.v)
    low, high = joint.range
    if joint.kind is not JointKind.BALL and ahead < low:
        total.spring(J, position - low, stiffness, damping)
    if ahead > high:
        total.spring(J, position - high, stiffness, damping)


def actuators(total: System, u: Array) -> None:
    """Motors and servos on joints, clipped one by one and then together on each joint."""
    model = total.model
    servos = []
    force = np.zeros(model.nv)
    for actuator, control in zip(model.actuators, u, strict=True):
        J, push, slope = servo(total, actuator, control)
        force += J * push
        servos.append((J, slope))
    for joint in model.joints:
        if joint.force_range is not None:
            k = joint.v
            servos = [(J, clipped(total, J, c, force[k], joint.force_range) if J[k] else c) for J, c in servos]
            force[k] = np.clip(force[k], *joint.force_range)
    total.force += force
    for J, slope in servos:
        total.matrix += slope * np.outer(J, J)


def clipped(total: System, J: Array, slope: float, force: float, bounds: tuple[float, float]) -> float:
    """Slope of a servo with a clipped force F: it alone moves its inertia I by min(F / I, force / (I + slope))."""
    if bounds[0] <= force <= bounds[1]:
        return slope
    inertia = np.array([joint.inertia for joint in total.model.joints for _ in joint.dofs])
    alone = 1.0 / np.sum(J**2 / inertia)
    bound = abs(float(np.clip(force, *bounds)))
    return bound / min(bound / alone, abs(force) / (alone + slope)) - alone


def servo(total: System, actuator: Actuator, control: float) -> tuple[Array, float, float]:
    """Direction, force and h · damping + h² · stiffness of one actuator."""
    J = np.zeros(total.model.nv)
    for k, gear in actuator.dofs:
        J[k] = gear
    if actuator.control_range is not None:
        control = np.clip(control, *actuator.control_range)
    constant, by_length, by_speed = actuator.bias
    speed = float(J @ total.v)
    length = sum(total.q[i] * gear for i, gear in actuator.coordinates) + total.h * speed * (by_length < 0.0)
    force = actuator.gain * control + constant + by_length * length + by_speed * speed
    slope = total.h * max(-by_speed, 0.0) + total.h**2 * max(-by_length, 0.0)
    if actuator.force_range is None:
        return J, force, slope
    bounds = actuator.force_range
    return J, float(np.clip(force, *bounds)), clipped(total, J, slope, force, bounds)


def coupled(total: System, equality: JointEquality) -> None:
    """q1 − reference1 = polynomial(q2 − reference2)."""
    first, second = equality.first, equality.second
    J, other = total.unit(first.v), 0.0
    if second is not None:
        other = total.q[second.q] - second.reference
        J = J - total.unit(second.v) * sum(n * c * other ** (n - 1) for n, c in enumerate(equality.polynomial) if n)
    value = sum(c * other**n for n, c in enumerate(equality.polynomial))
    stiff(total, J, total.q[first.q] - first.reference - value, equality.effective_mass)


def stiff(total: System, J: Array, violation: float, mass: float) -> None:
    """A critically damped spring."""
    total.spring(J, violation, mass * CONSTRAINT_RATE**2, 2.0 * mass * CONSTRAINT_RATE)


def held(total: System, equality: Connect | Weld) -> None:
    """Two points that coincide; of a weld, two frames."""
    (p, R, J), (p2, R2, J2) = (frame(total, end) for end in (equality.first, equality.second))
    gap, rows = p - p2, J - J2
    for i in range(3):
        stiff(total, rows[3 + i], gap[i], equality.effective_mass)
    if isinstance(equality, Weld):
        turn = R @ R2.T
        sine = 0.5 * np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
        for i in range(3):
            stiff(total, rows[i], sine[i], equality.effective_inertia)


def frame(total: System, place: Frame) -> tuple[Array, Array, Array]:
    """Position and rotation of a frame, and its Jacobian [6, nv]: angular rows, then those of its origin."""
    i, position, rotation = place.link, np.array(place.position), np.array(place.rotation)
    if i == WORLD:
        return position, rotation, np.zeros((6, total.model.nv))
    x = total.state.position[i] + total.state.rotation[i] @ position
    return x, total.state.rotation[i] @ rotation, point_jacobian(total, i, x)


def point_jacobian(total: System, link: int, x: Array) -> Array:
    J = total.state.chain[link]
    return np.vstack([J[:3], J[3:] - skew(x) @ J[:3]])


def touch(total: System, candidate: ContactCandidate) -> None:
    """A contact under the compliant law, at the depth ahead."""
    n, m, h = np.array(candidate.plane.normal), candidate.material, total.h
    assert isinstance(m, ContactConstants)
    _, x, depth, u = contact_state(candidate, total.state)
    speed = float(n @ u)
    ahead = depth - h * speed
    if ahead <= 0.0:
        return
    slip = u - n * speed
    push = max((m.stiffness - m.damping * speed) * ahead, 0.0)
    along = max(h * (m.stiffness - m.damping * speed) + m.damping * ahead, 0.0) if push > 0.0 else 0.0
    # The secant of friction, away from rest by an offset along x or y, whichever is closer to the plane.
    axis = np.eye(3)[0 if abs(n[0]) <= abs(n[1]) else 1]
    offset = axis - n * (n @ axis)
    away = slip + offset * SLIP_OFFSET / np.linalg.norm(offset)
    across = min(m.viscosity, m.friction * push / np.sqrt(away @ away + SLIP_FLOOR))
    total.force += total.state.chain[candidate.link].T @ at(x, push * n - across * slip)
    rows = point_jacobian(total, candidate.link, x)[3:]
    total.matrix += h * rows.T @ (along * np.outer(n, n) + across * (np.eye(3) - np.outer(n, n))) @ rows


def acceleration(model: Model, x: dict[str, Array], h: float) -> Array:
    total = system(model, x, h)
    return np.linalg.solve(total.matrix, total.force)


def adjoint(model: Model, x: dict[str, Array], h: float, q_bar: Array, v_bar: Array) -> dict[str, Array]:
    """From the tangent-space adjoints q̄', v̄' [nv] of a step's outcome to those of q, v, u, f."""
    total = system(model, x, h)
    a = np.linalg.solve(total.matrix, total.force)
    q_bar, v_bar = through_integration(model, h * (x["v"] + h * a), h, q_bar, v_bar)
    lam = np.linalg.solve(total.matrix, h * v_bar)

    def residual(**changed: Array) -> float:
        moved = system(model, {**x, **changed}, h)
        return float(lam @ (moved.matrix @ a - moved.force))

    by_q = gradient(lambda d: residual(q=displaced(model, x["q"], d)), model.nv)
    by_v = gradient(lambda d: residual(v=x["v"] + d), model.nv)
    by_u = gradient(lambda d: residual(u=x["u"] + d), model.nu)
    return {"q": q_bar - by_q, "v": v_bar - by_v, "u": -by_u, "f": lam}


def displaced(model: Model, q: Array, by: Array) -> Array:
    """Positions moved along a tangent vector; exactly, so that quaternions stay on their sphere."""
    out = q.copy()
    for joint in model.joints:
        if joint.kind is JointKind.BALL:
            at, turn = slice(joint.q, joint.q + 4), by[list(joint.dofs)]
            angle = np.linalg.norm(turn)
            sine = 0.5 * np.sinc(angle / (2.0 * np.pi))
            out[at] = product(q[at], np.concatenate([[np.cos(angle / 2.0)], sine * turn]))
        else:
            out[joint.q] += by[joint.v]
    return out


def gradient(function: Callable[[Array], float], size: int) -> Array:
    """By central differences of fourth order."""
    out = np.zeros(size)
    for k, unit in enumerate(np.eye(size)):
        near, far = (function(e * unit) - function(-e * unit) for e in (EPS, 2.0 * EPS))
        out[k] = (8.0 * near - far) / (12.0 * EPS)
    return out
