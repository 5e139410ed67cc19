"""Passive joint forces: springs, damping, dry friction, and limits that push a joint back into its range.

Every function returns generalized forces and the dashpots that an implicit step of `h` seconds adds. In an explicit
step h is the constant zero, and there are no dashpots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import nonzero, where
from ahac.sim.model.types import Joint, JointKind, Model
from ahac.sim.physics.algebra import Quat, Vec3, norm, rotation_vector
from ahac.sim.physics.forces import Dashpot, dry_friction, implicit_coefficient, limit_constants, range_force

__all__ = ["STICTION_SPEED", "STICTION_SPEED_SLIDE", "friction_force", "joint_stretch", "limit_force", "passive_force"]

Dashpots = list[Dashpot]

STICTION_SPEED = 1e-2
"""Speed v₀ of a hinge or ball [rad/s] below which dry friction is viscous."""
STICTION_SPEED_SLIDE = 1e-3
"""As above, for a slide [m/s]."""


def passive_force(model: Model, q: Sequence[Real], v: Sequence[Real], h: Real = 0.0) -> tuple[list[Real], Dashpots]:
    """Return −stiffness (q − reference) − damping v; for a ball joint q − reference is a rotation vector.

    In an implicit step of `h` seconds, q is the predicted position q + h v, and the dashpots complete the step.
    """
    force: list[Real] = [-(v[k] * model.damping[k]) if nonzero(model.damping[k]) else 0.0 for k in range(model.nv)]
    stiffness: list[Real] = [0.0] * model.nv
    for joint in model.joints:
        if nonzero(joint.stiffness):
            for k, stretch in zip(joint.dofs, joint_stretch(joint, q), strict=True):
                force[k] = force[k] - (stretch + v[k] * h) * joint.stiffness
                stiffness[k] = joint.stiffness
    constants = list(zip(model.damping, stiffness, strict=True))
    return force, _dashpots({k: implicit_coefficient(h, *c) for k, c in enumerate(constants) if any(map(nonzero, c))})


def friction_force(model: Model, v: Sequence[Real], h: Real = 0.0) -> tuple[list[Real], Dashpots]:
    """Return dry friction, which is viscous below the speed v₀."""
    force: list[Real] = [0.0] * model.nv
    coefficients: dict[int, Real] = {}
    for joint in model.joints:
        floor = STICTION_SPEED_SLIDE if joint.kind is JointKind.SLIDE else STICTION_SPEED
        for k in joint.dofs:
            if nonzero(model.frictionloss[k]):
                force[k], coefficients[k] = dry_friction(model.frictionloss[k], v[k], floor, h)
    return force, _dashpots(coefficients)


def limit_force(model: Model, q: Sequence[Real], v: Sequence[Real], h: Real = 0.0) -> tuple[list[Real], Dashpots]:
    """Return stiffness · (bound − q) − damping · v for joints outside their range, and zero inside.

    In an implicit step of `h` seconds, q is the predicted position q + h v.
    """
    force: list[Real] = [0.0] * model.nv
    coefficients: dict[int, Real] = {}
    dashpots: Dashpots = []
    for joint in model.joints:
        if joint.range is None:
            continue
        if joint.kind is JointKind.BALL:
            force[joint.v : joint.dofs.stop], added = _limit_ball(joint, q, v, h)
            dashpots += added
            continue
        speed = v[joint.v]
        position = q[joint.q] + speed * h
        force[joint.v], coefficients[joint.v] = range_force(joint.range, joint.limit, position, speed, h)
    return force, [*dashpots, *_dashpots(coefficients)]


def _limit_ball(joint: Joint, q: Sequence[Real], v: Sequence[Real], h: Real) -> tuple[list[Real], Dashpots]:
    """Return the torque that keeps the rotation angle of a ball joint below its bound."""
    assert joint.range is not None
    stiffness, damping = limit_constants(joint.limit)
    rotation = rotation_vector(Quat.of(q[joint.q : joint.q + 4]))
    angle = norm(rotation)
    axis = rotation / angle
    speed = axis.dot(Vec3(*(v[k] for k in joint.dofs)))
    excess = angle + speed * h - joint.range[1]
    torque = where(excess > 0.0, -(excess * stiffness + speed * damping), 0.0)
    coefficient = where(excess > 0.0, implicit_coefficient(h, damping, stiffness), 0.0)
    jacobian = dict(zip(joint.dofs, axis, strict=True))
    return [torque * j for j in axis], [Dashpot(jacobian, coefficient)] if isinstance(coefficient, Scalar) else []


def _dashpots(coefficients: Mapping[int, Real]) -> Dashpots:
    """Return the dashpots on single coordinates; none in an explicit step."""
    return [Dashpot({k: 1.0}, c) for k, c in coefficients.items() if nonzero(c)]


def joint_stretch(joint: Joint, q: Sequence[Real]) -> list[Real]:
    """Return the deflection of a joint's spring along each velocity coordinate."""
    if joint.kind is not JointKind.BALL:
        return [q[joint.q] - joint.spring_reference[0]]
    difference = Quat.of(joint.spring_reference).conjugate() * Quat.of(q[joint.q : joint.q + 4])
    return list(rotation_vector(difference))
