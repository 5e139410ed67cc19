"""Contact forces at the end of a step.

A step of h seconds takes the law at the predicted depth d − h s, with s the normal speed, and adds damping: of the
normal force its derivative cn = h ∂f/∂d − ∂f/∂s, of friction the secant ct = |f_t| / |u_t|, which slows a point down
but never reverses it. A link feels the force f, and the matrix h Xᵀ (cn n nᵀ + ct (1 − n nᵀ)) X is added to its
inertia, where X maps the motion of the link to the velocity of the point.

A robot with many points adds up those of each link in a loop, whose code does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.loops import RowFunction, sum_over_rows
from ahac.sim.compiler.operations import barrier, maximum
from ahac.sim.compiler.reverse_mode import pullback
from ahac.sim.model.types import ContactConstants, Plane
from ahac.sim.physics.algebra import Mat3, Spatial, SpatialMatrix, Vec3, norm
from ahac.sim.physics.contact import (
    ContactLaw,
    ContactPoint,
    compliant,
    contact_force,
    depth_below,
    penalty,
)
from ahac.sim.physics.kinematics import Motion

__all__ = ["SLIP_OFFSET", "implicit_contacts"]

LOOPED_FROM = 33
"""Number of points of a robot from which they are added up in loops; for fewer, loops are slower."""
LOOP_POINTS = 2
"""Number of points of a link that such a loop takes at least."""
LINK_STATE = 22
"""Numbers that a loop over points takes: rotation, position, origin and velocity of the link, and h."""
POINT = 4
"""Numbers per point: center and radius."""

SLIP_OFFSET = 1e-6
"""Added to the slip [m/s] where the secant of friction is taken, so that it is defined at rest."""
SLIP_FLOOR = 1e-30
"""Added to the squared slip with offset [m²/s²], which is never zero in practice."""

Response = tuple[Spatial, SpatialMatrix]
"""Wrench and implicit terms on a link."""


def implicit_contacts(
    points: Sequence[ContactPoint], motion: Motion, law: ContactLaw, h: Scalar
) -> tuple[dict[int, Spatial], dict[int, SpatialMatrix]]:
    """Return the wrenches, and the implicit terms h · damping + h² · stiffness, of links with contact candidates."""
    wrenches: dict[int, Spatial] = {}
    damping: dict[int, SpatialMatrix] = {}
    row_function = cache(lambda surface: _row_function(law, surface))
    loops = len(points) >= LOOPED_FROM
    for (link, surface), group in _grouped(points, law).items():
        if not loops or surface is None or len(group) < LOOP_POINTS:
            responses = [_response(law, p.depth, p.velocity, p.position, p.normal, p.material, h) for p in group]
        else:
            rows = [(*point.candidate.center, point.candidate.radius) for point in group]
            responses = [_response_of(sum_over_rows(row_function(surface), _link_state(motion, link, h), rows))]
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
    across = maximum(0.0, -(force.dot(slip) / (slip.dot(slip) + SLIP_FLOOR)))
    force = force + offset * across
    matrix = SpatialMatrix.at_point(position, normal, h * along_normal, h * across)
    return Spatial(position.cross(force), force), matrix


def _perpendicular(normal: Vec3) -> Vec3:
    """Return a unit vector across a plane's normal."""
    axis = min((Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0)), key=lambda axis: abs(normal.dot(axis)))
    across = axis - normal * normal.dot(axis)
    return across / norm(across)


@dataclass(frozen=True)
class _Surface:
    """What the points of one loop have in common."""

    plane: Plane
    material: ContactConstants


def _grouped(points: Iterable[ContactPoint], law: ContactLaw) -> dict[tuple[int, _Surface | None], list[ContactPoint]]:
    """Group the points by link and surface; None for points that cannot be added up in a loop.

    A user-defined law may use the constants in ways that only work with plain numbers, and an ellipsoid has more
    constants than a ball.
    """
    groups: dict[tuple[int, _Surface | None], list[ContactPoint]] = {}
    for point in points:
        looped = law in (compliant, penalty) and point.candidate.is_ball
        surface = _Surface(point.candidate.plane, point.material) if looped else None
        groups.setdefault((point.candidate.link, surface), []).append(point)
    return groups


def _row_function(law: ContactLaw, surface: _Surface) -> RowFunction:
    """Return the sum of responses over points of one surface, as a function of the link's state."""

    def body(state: Sequence[Real], point: Sequence[Real]) -> list[Real]:
        rotation = Mat3(*(Vec3(*state[3 * k : 3 * k + 3]) for k in range(3)))
        frame, origin, angular, linear = (Vec3(*state[k : k + 3]) for k in (9, 12, 15, 18))
        h = state[21]
        assert isinstance(h, Scalar), "the body of a loop is traced"
        normal = Vec3.of(surface.plane.normal)
        position = frame + rotation @ Vec3(*point[:3]) - normal * point[3]
        depth = depth_below(surface.plane, origin, position)
        velocity = Spatial(angular, linear).at(position)
        return _numbers(*_response(law, depth, velocity, position, normal, surface.material, h))

    return RowFunction(body, LINK_STATE, POINT)


def _link_state(motion: Motion, link: int, h: Scalar) -> list[Real]:
    """Return the numbers of a link that a loop over its points takes."""
    velocity = motion.velocity[link]
    vectors = (*motion.rotation[link].rows, motion.position[link], motion.origin[link])
    return [*(x for vector in (*vectors, velocity.angular, velocity.linear) for x in vector), h]


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
