"""Equality constraints as stiff, critically damped springs: coupled joints or tendons, ball joints and welds.

With violation g, its rate ġ = J v, and the inertia m that a force along J moves in the reference pose:

    force = −k g − c ġ        k = m ω²        c = 2 m ω

An implicit step evaluates g at the predicted position and is stable for any ω.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.model.types import WORLD, Connect, JointEquality, Model, Polynomial, TendonEquality, Weld
from ahac.sim.physics.algebra import ZERO, ZERO_SPATIAL, Spatial, Vec3
from ahac.sim.physics.forces import Dashpot, Forces, implicit_coefficient
from ahac.sim.physics.kinematics import Motion
from ahac.sim.physics.paths import Placement, tendon_path

__all__ = ["CONSTRAINT_RATE", "equality_forces"]

CONSTRAINT_RATE = 200.0
"""Rate ω at which violations decay [1/s]."""

AXES = (Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0))


def equality_forces(model: Model, motion: Motion, q: Sequence[Real], v: Sequence[Real], h: Real = 0.0) -> Forces:
    """Return the forces of all equality constraints."""
    total = Forces([0.0] * model.nv)
    for equality in model.equalities:
        match equality:
            case JointEquality():
                _couple_joints(total, equality, q, v, h)
            case Connect():
                _connect(total, model, motion, equality, h)
            case Weld():
                _connect(total, model, motion, equality, h)
                _align(total, model, motion, equality, h)
            case TendonEquality():
                _couple_tendons(total, model, motion, equality, q, v, h)
            case _:
                assert_never(equality)
    return total


def _couple_joints(total: Forces, equality: JointEquality, q: Sequence[Real], v: Sequence[Real], h: Real) -> None:
    first, second = equality.first, equality.second
    jacobian: dict[int, Real] = {first.v: 1.0}
    violation = q[first.q] - first.reference - equality.polynomial[0]
    if second is not None:
        value, slope = _evaluate(equality.polynomial, q[second.q] - second.reference)
        violation = q[first.q] - first.reference - value
        jacobian[second.v] = -slope
    _hold(total, jacobian, violation, v, equality.effective_mass, h)


def _hold(total: Forces, jacobian: dict[int, Real], violation: Real, v: Sequence[Real], mass: float, h: Real) -> None:
    """Add the force of a constraint with the given Jacobian."""
    speed = sum((v[k] * j for k, j in jacobian.items()), 0.0)
    stiffness, damping = _constants(mass)
    force = -((violation + speed * h) * stiffness + speed * damping)
    for k, j in jacobian.items():
        total.joint[k] = total.joint[k] + j * force
    _add_dashpot(total, jacobian, implicit_coefficient(h, damping, stiffness))


def _couple_tendons(
    total: Forces,
    model: Model,
    motion: Motion,
    equality: TendonEquality,
    q: Sequence[Real],
    v: Sequence[Real],
    h: Real,
) -> None:
    tendons = {tendon.name: tendon for tendon in model.tendons}
    first = tendon_path(model, motion, tendons[equality.first], q)
    jacobian = dict(first.jacobian)
    violation = first.length - equality.references[0] - equality.polynomial[0]
    if equality.second is not None:
        second = tendon_path(model, motion, tendons[equality.second], q)
        value, slope = _evaluate(equality.polynomial, second.length - equality.references[1])
        violation = first.length - equality.references[0] - value
        for k, j in second.jacobian.items():
            jacobian[k] = jacobian.get(k, 0.0) - slope * j
    _hold(total, jacobian, violation, v, equality.effective_mass, h)


def _connect(total: Forces, model: Model, motion: Motion, equality: Connect | Weld, h: Real) -> None:
    """Pull the origins of two frames together."""
    place = Placement(motion)
    first, second = (place.point(frame.link, frame.position) for frame in (equality.first, equality.second))
    gap = place.about(first, equality.first.link, equality.second.link) - second
    speed = _velocity(motion, equality.first.link).at(first) - _velocity(motion, equality.second.link).at(second)
    stiffness, damping = _constants(equality.effective_mass)
    force = -((gap + speed * h) * stiffness + speed * damping)
    _add_wrench(total, equality.first.link, Spatial(first.cross(force), force))
    _add_wrench(total, equality.second.link, Spatial(second.cross(-force), -force))
    columns = {k: motion.joint_subspace[k].at(first) for k in model.path(equality.first.link)}
    for k in model.path(equality.second.link):
        columns[k] = columns.get(k, ZERO) - motion.joint_subspace[k].at(second)
    coefficient = implicit_coefficient(h, damping, stiffness)
    for axis in AXES:
        _add_dashpot(total, {k: column.dot(axis) for k, column in columns.items()}, coefficient)


def _align(total: Forces, model: Model, motion: Motion, weld: Weld, h: Real) -> None:
    """Rotate two frames toward each other; the violation is the sine of the angle between them, about its axis."""
    if not weld.effective_inertia:
        return
    first, second = (Placement(motion).axes(frame) for frame in (weld.first, weld.second))
    turned = sum((second.column(k).cross(first.column(k)) for k in range(3)), ZERO) * 0.5
    speed = _velocity(motion, weld.first.link).angular - _velocity(motion, weld.second.link).angular
    stiffness, damping = _constants(weld.effective_inertia)
    torque = -((turned + speed * h) * stiffness + speed * damping)
    _add_wrench(total, weld.first.link, Spatial(torque, ZERO))
    _add_wrench(total, weld.second.link, Spatial(-torque, ZERO))
    columns = {k: motion.joint_subspace[k].angular for k in model.path(weld.first.link)}
    for k in model.path(weld.second.link):
        columns[k] = columns.get(k, ZERO) - motion.joint_subspace[k].angular
    coefficient = implicit_coefficient(h, damping, stiffness)
    for axis in AXES:
        _add_dashpot(total, {k: column.dot(axis) for k, column in columns.items()}, coefficient)


def _constants(mass: float) -> tuple[float, float]:
    """Return stiffness and critical damping."""
    return mass * CONSTRAINT_RATE**2, 2.0 * mass * CONSTRAINT_RATE


def _evaluate(polynomial: Polynomial, x: Real) -> tuple[Real, Real]:
    """Return the value of a polynomial and its slope."""
    value: Real = 0.0
    slope: Real = 0.0
    for coefficient in reversed(polynomial):
        slope = slope * x + value
        value = value * x + coefficient
    return value, slope


def _add_dashpot(total: Forces, jacobian: dict[int, Real], coefficient: Real) -> None:
    nonzero = {k: j for k, j in jacobian.items() if isinstance(j, Scalar) or j}
    if isinstance(coefficient, Scalar):
        total.dashpots.append(Dashpot(nonzero, coefficient))


def _add_wrench(total: Forces, link: int, wrench: Spatial) -> None:
    if link != WORLD:
        total.wrenches[link] = total.wrenches.get(link, ZERO_SPATIAL) + wrench


def _velocity(motion: Motion, link: int) -> Spatial:
    return ZERO_SPATIAL if link == WORLD else motion.velocity[link]
