"""Time integration: semi-implicit Euler, with the exponential map on rotations.

v' = v + h v̇        q' = q + h v'        rotation' = rotation · Exp(h ω')
"""

from __future__ import annotations

from collections.abc import Sequence

from ahac.sim.compiler.graph import Real
from ahac.sim.model.types import JointKind, Model
from ahac.sim.physics.algebra import Quat, Vec3, quat_exp

__all__ = ["normalize", "semi_implicit"]


def semi_implicit(
    model: Model, q: Sequence[Real], v: Sequence[Real], acceleration: Sequence[Real], h: Real
) -> tuple[list[Real], list[Real]]:
    """Return positions and velocities after `h` seconds."""
    v = [speed + rate * h for speed, rate in zip(v, acceleration, strict=True)]
    q = list(q)
    for joint in model.joints:
        if joint.kind is JointKind.BALL:
            rotation = quat_exp(Vec3(*v[joint.v : joint.v + 3]) * h)
            q[joint.q : joint.q + 4] = Quat.of(q[joint.q : joint.q + 4]) * rotation
        else:
            q[joint.q] = q[joint.q] + v[joint.v] * h
    return q, v


def normalize(model: Model, q: Sequence[Real]) -> list[Real]:
    """Return the same positions with unit quaternions, as MuJoCo interprets them."""
    q = list(q)
    for joint in model.joints:
        if joint.kind is JointKind.BALL:
            q[joint.q : joint.q + 4] = Quat.of(q[joint.q : joint.q + 4]).normalized()
    return q
