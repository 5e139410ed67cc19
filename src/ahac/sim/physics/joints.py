"""Passive joint forces: springs, damping, and limits that push a joint back into its range."""

from __future__ import annotations

from collections.abc import Sequence

from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.operations import maximum, minimum, where
from ahac.sim.model.types import Joint, JointKind, Model
from ahac.sim.physics.algebra import Quat, rotation_vector

__all__ = ["limit_force", "passive_force"]


def passive_force(model: Model, q: Sequence[Real], v: Sequence[Real]) -> list[Real]:
    """Return −stiffness (q − reference) − damping v; for a ball joint q − reference is a rotation vector."""
    force: list[Real] = [-(v[k] * model.damping[k]) if model.damping[k] else 0.0 for k in range(model.nv)]
    for joint in model.joints:
        if joint.stiffness:
            for k, stretch in zip(joint.dofs, _stretch(joint, q), strict=True):
                force[k] = force[k] - stretch * joint.stiffness
    return force


def limit_force(model: Model, q: Sequence[Real], v: Sequence[Real]) -> list[Real]:
    """Return stiffness · (bound − q) − damping · v for joints outside their range, and zero inside."""
    force: list[Real] = [0.0] * model.nv
    for joint in model.joints:
        if joint.range is None:
            continue
        low, high = joint.range
        position, speed = q[joint.q], v[joint.v]
        # Positive below the range, negative above it, zero inside; on a bound the derivative is zero, as inside.
        violation = maximum(0.0, low - position) + minimum(0.0, high - position)
        damped = where(position < low, speed, where(position > high, speed, 0.0))
        force[joint.v] = violation * joint.limit.stiffness - damped * joint.limit.damping
    return force


def _stretch(joint: Joint, q: Sequence[Real]) -> list[Real]:
    if joint.kind is not JointKind.BALL:
        return [q[joint.q] - joint.spring_reference[0]]
    difference = Quat.of(joint.spring_reference).conjugate() * Quat.of(q[joint.q : joint.q + 4])
    return list(rotation_vector(difference))
