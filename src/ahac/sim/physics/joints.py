"""Passive joint forces: springs, damping, dry friction, and limits that push a joint back into its range.

Every function returns generalized forces, and the dashpots that an implicit step of `h` seconds adds. In an explicit
step h is the constant zero, and there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import maximum, minimum, sqrt, where
from ahac.sim.model.types import Joint, JointKind, Model
from ahac.sim.physics.algebra import Quat, Vec3, norm, rotation_vector
from ahac.sim.physics.forces import Dashpot, implicit_coefficient

__all__ = ["STICTION_SPEED", "STICTION_SPEED_SLIDE", "friction_force", "joint_stretch", "limit_force", "passive_force"]

Dashpots = list[Dashpot]

STICTION_SPEED = 1e-2
"""Speed v₀ of a hinge or ball [rad/s] below which dry friction is viscous."""
STICTION_SPEED_SLIDE = 1e-3
"""The same for a slide [m/s]."""


def passive_force(model: Model, q: Sequence[Real], v: Sequence[Real], h: Real = 0.0) -> tuple[list[Real], Dashpots]:
    """Return −stiffness (q − reference) − damping v; for a ball joint q − reference is a rotation vector.

    In an implicit step of `h` seconds, q is the predicted position q + h v, and the dashpots complete the step.
    """
    force: list[Real] = [-(v[k] * model.damping[k]) if model.damping[k] else 0.0 for k in range(model.nv)]
    stiffness = [0.0] * model.nv
    for joint in model.joints:
        if joint.stiffness:
            for k, stretch in zip(joint.dofs, joint_stretch(joint, q), strict=True):
                force[k] = force[k] - (stretch + v[k] * h) * joint.stiffness
                stiffness[k] = joint.stiffness
    constants = list(zip(model.damping, stiffness, strict=True))
    return force, _dashpots({k: implicit_coefficient(h, *c) for k, c in enumerate(constants) if any(c)})


def friction_force(model: Model, v: Sequence[Real], h: Real = 0.0) -> tuple[list[Real], Dashpots]:
    """Return dry friction, −loss · v / √(v² + v₀²).

    An implicit step takes the secant loss / √(v² + v₀²) as damping: it slows a joint down, but never reverses it.
    """
    force: list[Real] = [0.0] * model.nv
    coefficients: dict[int, Real] = {}
    for joint in model.joints:
        floor = STICTION_SPEED_SLIDE if joint.kind is JointKind.SLIDE else STICTION_SPEED
        for k in joint.dofs:
            if model.frictionloss[k]:
                secant = model.frictionloss[k] / sqrt(v[k] * v[k] + floor**2)
                force[k] = -(secant * v[k])
                coefficients[k] = h * secant
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
        low, high = joint.range
        if joint.kind is JointKind.BALL:
            force[joint.v : joint.dofs.stop], added = _limit_ball(joint, q, v, h)
            dashpots += added
            continue
        stiffness, damping = _constants(joint)
        speed = v[joint.v]
        position = q[joint.q] + speed * h
        # Positive below the range, negative above it, zero inside; on a bound the derivative is zero, as inside.
        violation = maximum(0.0, low - position) + minimum(0.0, high - position)
        damped = where(position < low, speed, where(position > high, speed, 0.0))
        force[joint.v] = violation * stiffness - damped * damping
        coefficient = implicit_coefficient(h, damping, stiffness)
        coefficients[joint.v] = where(position < low, coefficient, where(position > high, coefficient, 0.0))
    return force, [*dashpots, *_dashpots(coefficients)]


def _limit_ball(joint: Joint, q: Sequence[Real], v: Sequence[Real], h: Real) -> tuple[list[Real], Dashpots]:
    """Return the torque that keeps the rotation angle of a ball joint below its bound."""
    assert joint.range is not None
    stiffness, damping = _constants(joint)
    rotation = rotation_vector(Quat.of(q[joint.q : joint.q + 4]))
    angle = norm(rotation)
    axis = rotation / angle
    speed = axis.dot(Vec3(*(v[k] for k in joint.dofs)))
    excess = angle + speed * h - joint.range[1]
    torque = where(excess > 0.0, -(excess * stiffness + speed * damping), 0.0)
    coefficient = where(excess > 0.0, implicit_coefficient(h, damping, stiffness), 0.0)
    jacobian = dict(zip(joint.dofs, axis, strict=True))
    return [torque * j for j in axis], [Dashpot(jacobian, coefficient)] if isinstance(coefficient, Scalar) else []


def _constants(joint: Joint) -> tuple[float, float]:
    """Return stiffness and damping of a limit, which the simulator has chosen where the model leaves them open."""
    stiffness, damping = joint.limit.stiffness, joint.limit.damping
    assert stiffness is not None, "constants are chosen before the physics is traced"
    assert damping is not None, "constants are chosen before the physics is traced"
    return stiffness, damping


def _dashpots(coefficients: Mapping[int, Real]) -> Dashpots:
    """Return the dashpots on single coordinates; none in an explicit step."""
    return [Dashpot({k: 1.0}, c) for k, c in coefficients.items() if isinstance(c, Scalar) or c]


def joint_stretch(joint: Joint, q: Sequence[Real]) -> list[Real]:
    """Return the deflection of a joint's spring along each velocity coordinate."""
    if joint.kind is not JointKind.BALL:
        return [q[joint.q] - joint.spring_reference[0]]
    difference = Quat.of(joint.spring_reference).conjugate() * Quat.of(q[joint.q : joint.q + 4])
    return list(rotation_vector(difference))
