"""Springs, dampers, limits, dry friction and armature along tendons, and the nonlinear parts of springs of joints."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import abs_, maximum, minimum, nonzero, where
from ahac.sim.compiler.reverse_mode import pullback
from ahac.sim.model.types import JointKind, Model, Tendon
from ahac.sim.physics.algebra import Quat, Vec3, norm
from ahac.sim.physics.forces import Dashpot, Forces, dry_friction, implicit_coefficient, range_force
from ahac.sim.physics.joints import STICTION_SPEED, STICTION_SPEED_SLIDE, joint_stretch
from ahac.sim.physics.kinematics import Motion
from ahac.sim.physics.paths import tendon_path

__all__ = ["nonlinear_joint_forces", "tendon_forces", "tendon_inertia"]


def nonlinear_joint_forces(model: Model, q: Sequence[Real], v: Sequence[Real], h: Real = 0.0) -> Forces:
    """Return what nonlinear springs and dampers of joints add to the linear ones.

    The deflection of a ball joint is its angle of rotation, that of a free joint's slides their distance.
    """
    total = Forces([0.0] * model.nv)
    coefficients: dict[int, Real] = {}
    nonlinear = [joint for joint in model.joints if joint.stiffness_slopes]
    stretch = {k: x + v[k] * h for joint in nonlinear for k, x in zip(joint.dofs, joint_stretch(joint, q), strict=True)}
    for joint in nonlinear:
        along = [stretch[k] for k in joint.spring_dofs or joint.dofs]
        deflection = along[0] if len(along) == 1 else norm(Vec3(*along))
        added = (0.0, *joint.stiffness_slopes)
        stiffness = maximum(0.0, _slope(added, deflection))
        for k in joint.dofs:
            total.joint[k] = -(stretch[k] * _polynomial(added, deflection))
            coefficients[k] = implicit_coefficient(h, 0.0, stiffness)
    for k, slopes in model.damping_slopes.items():
        speed, added = abs_(v[k]), (0.0, *slopes)
        total.joint[k] = total.joint[k] - v[k] * _polynomial(added, speed)
        coefficients[k] = coefficients.get(k, 0.0) + implicit_coefficient(h, maximum(0.0, _slope(added, speed)), 0.0)
    total.dashpots = [Dashpot({k: 1.0}, c) for k, c in coefficients.items() if isinstance(c, Scalar)]
    return total


def tendon_forces(
    model: Model, motion: Motion, q: Sequence[Real], v: Sequence[Real], h: Real = 0.0, limited: bool = True
) -> Forces:
    """Return the forces along all tendons but those of actuators; limits act only if `limited`."""
    total = Forces([0.0] * model.nv)
    for tendon in model.tendons:
        if not _acts(tendon, limited):
            continue
        path = tendon_path(model, motion, tendon, q)
        speed = path.speed(v)
        parts = [_spring(tendon, path.length + speed * h, h), _damper(tendon, speed, h), _friction(tendon, speed, h)]
        if limited and tendon.range is not None:
            parts.append(range_force(tendon.range, tendon.limit, path.length + speed * h, speed, h))
        force = sum((part for part, _ in parts), 0.0)
        coefficient = sum((part for _, part in parts), 0.0)
        if tendon.armature:
            force = force - _speed_rate(model, q, v, speed) * tendon.armature
            coefficient = coefficient + tendon.armature
        path.add_force(total.joint, force)
        if nonzero(coefficient):
            total.dashpots.append(Dashpot(path.jacobian, coefficient))
    return total


def tendon_inertia(model: Model, motion: Motion, q: Sequence[Real]) -> list[Dashpot]:
    """Return what the armature of tendons adds to the mass matrix."""
    return [
        Dashpot(tendon_path(model, motion, tendon, q).jacobian, tendon.armature)
        for tendon in model.tendons
        if tendon.armature
    ]


def _acts(tendon: Tendon, limited: bool) -> bool:
    passive = bool(tendon.stiffness or tendon.damping or tendon.armature) or nonzero(tendon.frictionloss)
    return passive or (limited and tendon.range is not None)


def _spring(tendon: Tendon, length: Real, h: Real) -> tuple[Real, Real]:
    """Return force and implicit coefficient of a spring that is slack between two lengths."""
    if not tendon.stiffness:
        return 0.0, 0.0
    low, high = tendon.spring_range
    elongation = maximum(0.0, length - high) + minimum(0.0, length - low)
    stiffness = maximum(0.0, _slope(tendon.stiffness, elongation))
    if low < high:
        stiffness = where(length > high, stiffness, where(length < low, stiffness, 0.0))
    return -(elongation * _polynomial(tendon.stiffness, elongation)), implicit_coefficient(h, 0.0, stiffness)


def _damper(tendon: Tendon, speed: Real, h: Real) -> tuple[Real, Real]:
    if not tendon.damping:
        return 0.0, 0.0
    size = abs_(speed)
    damping = maximum(0.0, _slope(tendon.damping, size))
    return -(speed * _polynomial(tendon.damping, size)), implicit_coefficient(h, damping, 0.0)


def _friction(tendon: Tendon, speed: Real, h: Real) -> tuple[Real, Real]:
    if not nonzero(tendon.frictionloss):
        return 0.0, 0.0
    floor = STICTION_SPEED if tendon.joints else STICTION_SPEED_SLIDE
    return dry_friction(tendon.frictionloss, speed, floor, h)


def _speed_rate(model: Model, q: Sequence[Real], v: Sequence[Real], speed: Real) -> Real:
    """Return the rate of change of a tendon's speed that is due to the change of its Jacobian, J̇ v.

    Tendons with armature have no obstacles: MuJoCo's compiler refuses those. So the speed depends on no solution by
    Newton's method, of which only the first derivative would be exact.
    """
    moving = [x for x in q if isinstance(x, Scalar)]
    if not isinstance(speed, Scalar) or not moving:
        return 0.0
    slopes = dict(zip((x.index for x in moving), pullback(speed.graph, [(speed, 1.0)], moving), strict=True))
    by_q = [slopes[x.index] if isinstance(x, Scalar) else 0.0 for x in q]
    rate: Real = 0.0
    for joint in model.joints:
        if joint.kind is JointKind.BALL:
            turn = Quat(0.0, Vec3(*(v[k] * 0.5 for k in joint.dofs)))
            for part, slope in zip(Quat.of(q[joint.q : joint.q + 4]) * turn, by_q[joint.q : joint.q + 4], strict=True):
                rate = rate + part * slope
        else:
            rate = rate + v[joint.v] * by_q[joint.q]
    return rate


def _polynomial(coefficients: Sequence[Real], x: Real) -> Real:
    """Return c₀ + c₁ x + c₂ x² ..."""
    return reduce(lambda total, c: total * x + c, reversed(coefficients), 0.0)


def _slope(coefficients: Sequence[Real], x: Real) -> Real:
    """Return the derivative of x (c₀ + c₁ x + c₂ x² ...)."""
    return _polynomial([(i + 1) * c for i, c in enumerate(coefficients)], x)
