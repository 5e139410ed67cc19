"""Contact forces at the end of a step.

A step of h seconds evaluates the law at the predicted depth d − h s, where s is the normal speed, and adds damping.
Along the normal it is the derivative cn = h ∂f/∂d − ∂f/∂s of the normal force; across it, the secant
ct = |f_t| / |u_t| of friction, which slows a point but never reverses it. The force f acts on the link, and the matrix
h Xᵀ (cn n nᵀ + ct (1 − n nᵀ)) X is added to its inertia, where X maps the motion of the link to the velocity of the
point.

For a robot with many points, those of each link are summed in a loop, whose code does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.loops import RowFunction
from ahac.sim.compiler.operations import barrier, maximum
from ahac.sim.compiler.reverse_mode import pullback
from ahac.sim.model.types import ContactConstants
from ahac.sim.physics.algebra import Mat3, Spatial, SpatialMatrix, Vec3, norm
from ahac.sim.physics.contact import ContactLaw, ContactPoint, contact_force
from ahac.sim.physics.contact_loops import Surface, grouped, row_function, sum_over_points
from ahac.sim.physics.kinematics import Motion

__all__ = ["SLIP_OFFSET", "implicit_contacts"]

LOOPED_FROM = 33
"""Minimum number of points of a robot for which they are summed in loops; with fewer, loops are slower."""
LOOP_POINTS = 2
"""Minimum number of points of a link for such a loop."""

SLIP_OFFSET = 1e-6
"""Added to the slip [m/s] to compute the secant of friction, so that it is defined at rest."""
OFFSET_SLIP_FLOOR = 1e-30
"""Added to the squared slip, offset included [m²/s²], which is never zero in practice."""

Response = tuple[Spatial, SpatialMatrix]
"""Wrench and implicit terms on a link."""


def implicit_contacts(
    points: Sequence[ContactPoint], motion: Motion, law: ContactLaw, h: Scalar
) -> tuple[dict[int, Spatial], dict[int, SpatialMatrix]]:
    """Return the wrenches, and the implicit terms h · damping + h² · stiffness, of links with contact candidates."""
    wrenches: dict[int, Spatial] = {}
    damping: dict[int, SpatialMatrix] = {}
    function = cache(lambda surface: _row_function(law, surface))
    loops = len(points) >= LOOPED_FROM
    for (link, surface), group in grouped(points, law).items():
        if not loops or surface is None or len(group) < LOOP_POINTS:
            responses = [_response(law, p.depth, p.velocity, p.position, p.normal, p.material, h) for p in group]
        else:
            responses = [_response_of(sum_over_points(function(surface), surface, group, motion, link, [h]))]
        for wrench, matrix in responses:
            wrenches[link] = wrenches[link] + wrench if link in wrenches else wrench
            damping[link] = damping[link] + matrix if link in damping else matrix
    return wrenches, damping


def _response(
    law: ContactLaw,
    depth: Real,
    velocity: Vec3,
    position: Vec3,
    normal: Vec3,
    material: ContactConstants,
    h: Scalar,
) -> Response:
    """Return the effect of one point on its link."""
    ahead = barrier(h.graph, depth - h * velocity.dot(normal))
    offset = _perpendicular(normal) * SLIP_OFFSET
    fixed = [barrier(h.graph, x) for x in velocity + offset]
    force = contact_force(law, ahead, Vec3(*fixed), normal, material)
    by_depth, *by_velocity = pullback(h.graph, [(force.dot(normal), 1.0)], [ahead, *fixed])
    along_normal = maximum(0.0, h * by_depth - Vec3(*by_velocity).dot(normal))
    slip = velocity - normal * velocity.dot(normal) + offset
    across = maximum(0.0, -(force.dot(slip) / (slip.dot(slip) + OFFSET_SLIP_FLOOR)))
    force = force + offset * across
    matrix = SpatialMatrix.at_point(position, normal, h * along_normal, h * across)
    return Spatial(position.cross(force), force), matrix


def _perpendicular(normal: Vec3) -> Vec3:
    """Return a unit vector across a plane's normal."""
    axis = min((Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0)), key=lambda axis: abs(normal.dot(axis)))
    across = axis - normal * normal.dot(axis)
    return across / norm(across)


def _row_function(law: ContactLaw, surface: Surface) -> RowFunction:
    """Return the sum of responses over points of one surface, as a function of the link's motion and h."""
    normal = Vec3.of(surface.plane.normal)

    def effect(
        depth: Real, velocity: Vec3, position: Vec3, material: ContactConstants, further: Sequence[Real]
    ) -> list[Real]:
        (h,) = further
        assert isinstance(h, Scalar), "the body of a loop is traced"
        return _numbers(*_response(law, depth, velocity, position, normal, material, h))

    return row_function(surface, effect, num_further=1)


def _numbers(wrench: Spatial, matrix: SpatialMatrix) -> list[Real]:
    """Flatten a response to 27 numbers."""
    vectors = (wrench.angular, wrench.linear, *matrix.coupling.rows)
    return [*(x for vector in vectors for x in vector), *matrix.angular, *matrix.linear]


def _response_of(numbers: Sequence[Real]) -> Response:
    """Invert `_numbers`."""
    torque, force, *coupling = (Vec3(*numbers[k : k + 3]) for k in range(0, 15, 3))
    a, b, c, d, e, f, *linear = numbers[15:]
    u, v, w, x, y, z = linear
    return Spatial(torque, force), SpatialMatrix((a, b, c, d, e, f), Mat3(*coupling), (u, v, w, x, y, z))
