"""Loops over the contact points of a link, whose code does not grow with their number.

The points of one link on one plane, of one material, differ only in center and radius, which are the constants of a
row. A loop takes the motion of the link and sums up the effects of the points on it. Constants of the material that are
parameters may differ from point to point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.loops import RowFunction, sum_over_rows
from ahac.sim.model.types import ContactConstants, Plane
from ahac.sim.physics.algebra import Mat3, Spatial, Vec3
from ahac.sim.physics.contact import (
    ContactLaw,
    ContactPoint,
    compliant,
    contact_wrench,
    depth_below,
    penalty,
    wrenches,
)
from ahac.sim.physics.kinematics import Motion

__all__ = ["Surface", "explicit_contacts", "grouped", "row_function", "sum_over_points"]

EXPLICIT_FROM = 64
"""Number of points of a robot from which an explicit step loops over them; a loop rounds the last bits differently."""
LINK_MOTION = 21
"""Numbers of a link that a loop takes: rotation, position, origin and velocity."""
POINT = 4
"""Numbers per point: center and radius."""

Effect = Callable[[Real, Vec3, Vec3, ContactConstants, Sequence[Real]], list[Real]]
"""Function depth, velocity, position, material, further arguments of the loop -> effect of a point, as numbers to be
summed."""


@dataclass(frozen=True)
class Surface:
    """What the points of one loop have in common."""

    plane: Plane
    material: ContactConstants
    """Constants of the points; zero where they are parameters."""
    parameters: tuple[str, ...] = ()
    """Constants of the material that are parameters."""

    @classmethod
    def of(cls, point: ContactPoint) -> Surface:
        """Return the surface of a point."""
        material = point.material
        traced = tuple(f.name for f in fields(material) if isinstance(getattr(material, f.name), Scalar))
        blank: dict[str, Any] = dict.fromkeys(traced, 0.0)
        return cls(point.candidate.plane, replace(material, **blank), traced)

    def material_with(self, values: Sequence[Real]) -> ContactConstants:
        """Return the material with the values of its parameters."""
        changed: dict[str, Any] = dict(zip(self.parameters, values, strict=True))
        return replace(self.material, **changed) if changed else self.material


def explicit_contacts(points: Sequence[ContactPoint], motion: Motion, law: ContactLaw) -> dict[int, Spatial]:
    """Return the contact wrench on every link with contact candidates, as `wrenches`, in loops if they are many."""
    if len(points) < EXPLICIT_FROM:
        return wrenches(points, law)
    total: dict[int, Spatial] = {}

    @cache
    def function(surface: Surface) -> RowFunction:
        normal = Vec3.of(surface.plane.normal)

        def effect(
            depth: Real, velocity: Vec3, position: Vec3, material: ContactConstants, _: Sequence[Real]
        ) -> list[Real]:
            wrench = contact_wrench(law, depth, velocity, position, normal, material)
            return [*wrench.angular, *wrench.linear]

        return row_function(surface, effect)

    for (link, surface), group in grouped(points, law).items():
        if surface is None:
            wrench = wrenches(group, law)[link]
        else:
            numbers = sum_over_points(function(surface), surface, group, motion, link)
            wrench = Spatial(Vec3(*numbers[:3]), Vec3(*numbers[3:]))
        total[link] = total[link] + wrench if link in total else wrench
    return total


def grouped(points: Iterable[ContactPoint], law: ContactLaw) -> dict[tuple[int, Surface | None], list[ContactPoint]]:
    """Group the points by link and surface; None for points that cannot be added up in a loop.

    A user-defined law may use the constants in ways that only work with plain numbers, an ellipsoid has more constants
    than a ball, and center and radius may be parameters.
    """
    groups: dict[tuple[int, Surface | None], list[ContactPoint]] = {}
    for point in points:
        candidate = point.candidate
        constant = not any(isinstance(x, Scalar) for x in (*candidate.center, candidate.radius))
        surface = Surface.of(point) if law in (compliant, penalty) and candidate.is_ball and constant else None
        groups.setdefault((candidate.link, surface), []).append(point)
    return groups


def row_function(surface: Surface, effect: Effect, num_further: int = 0) -> RowFunction:
    """Return the sum of the effects of points of one surface, as a function of a link's motion and further numbers."""

    def body(state: Sequence[Real], point: Sequence[Real], parameters: Sequence[Real] = ()) -> list[Real]:
        rotation = Mat3(*(Vec3(*state[3 * k : 3 * k + 3]) for k in range(3)))
        frame, origin, angular, linear = (Vec3(*state[k : k + 3]) for k in (9, 12, 15, 18))
        normal = Vec3.of(surface.plane.normal)
        position = frame + rotation @ Vec3(*point[:3]) - normal * point[3]
        depth = depth_below(surface.plane, origin, position)
        velocity = Spatial(angular, linear).at(position)
        return effect(depth, velocity, position, surface.material_with(parameters), state[LINK_MOTION:])

    return RowFunction(body, LINK_MOTION + num_further, POINT, len(surface.parameters))


def sum_over_points(
    function: RowFunction,
    surface: Surface,
    points: Sequence[ContactPoint],
    motion: Motion,
    link: int,
    further: Sequence[Real] = (),
) -> list[Real]:
    """Return the sum of the effects of a link's points."""
    velocity = motion.velocity[link]
    vectors = (*motion.rotation[link].rows, motion.position[link], motion.origin[link])
    state = [x for vector in (*vectors, velocity.angular, velocity.linear) for x in vector]
    rows: list[Any] = [(*point.candidate.center, point.candidate.radius) for point in points]
    parameters = [[getattr(point.material, name) for name in surface.parameters] for point in points]
    return sum_over_rows(function, [*state, *further], rows, parameters)
