"""The shortest path of a tendon around a sphere or cylinder, or inside of it.

Around a sphere, the path lies in the plane of its two ends and the center. Around a cylinder, it is found in projection
along the axis; its height then changes in proportion to its projected length. Either way it is the problem of a circle:

    outside   two tangents and an arc between them, if the straight line passes through the circle; with a side site,
              the path never passes behind the center, as seen from that side
    inside    two straight lines that meet in a point of the circle under equal angles, if the straight line misses it

Which of the cases holds depends on the state, so all of them are traced. Length and direction change continuously
between wrapped and straight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ahac.sim.compiler.graph import Condition, Real
from ahac.sim.compiler.operations import atan2, clip, cos, maximum, sin, sqrt, stop_gradient, where
from ahac.sim.model.types import Obstacle
from ahac.sim.physics.algebra import Vec3, norm

__all__ = ["Wrap", "wrap"]

Point = tuple[Real, Real]

FLOOR = 1e-30
"""Added under square roots that may reach zero; far below rounding for obstacles of any size."""
TOLERANCE = 1e-6
"""Error [rad] at which Newton's method stops, as in MuJoCo."""
NEWTON_STEPS = 7


@dataclass(frozen=True)
class Wrap:
    """Points where a path from `start` to `end` touches an obstacle, in the obstacle's frame."""

    wrapped: Condition | bool
    """Whether it touches at all; if not, the points have no meaning."""
    first: Vec3
    last: Vec3
    between: Real
    """Length of the path between the two points [m]."""


@dataclass(frozen=True)
class _Circle:
    """Path around a circle about the origin of a plane."""

    wrapped: Real
    """1 or 0."""
    first: Point
    last: Point
    arc: Real


def wrap(obstacle: Obstacle, start: Vec3, end: Vec3) -> Wrap:
    """Return where the shortest path from `start` to `end`, given in the obstacle's frame, touches the obstacle."""
    if obstacle.cylinder:
        return _wrap_cylinder(obstacle, start, end)
    x_axis = start * (1.0 / norm(start, FLOOR))
    normal = start.cross(end)
    # If both ends are in line with the center, any plane through them will do.
    spare = x_axis.cross(
        Vec3(where(x_axis.x * x_axis.x < 0.5, 1.0, 0.0), where(x_axis.x * x_axis.x < 0.5, 0.0, 1.0), 0.0)
    )
    aligned = normal.dot(normal) < FLOOR
    normal = Vec3(*(where(aligned, s, n) for s, n in zip(spare, normal, strict=True)))
    y_axis = (normal * (1.0 / norm(normal, FLOOR))).cross(x_axis)

    def project(point: Vec3) -> Point:
        return point.dot(x_axis), point.dot(y_axis)

    side = None if obstacle.side is None else project(Vec3.of(obstacle.side))
    circle = _wrap_circle((norm(start, FLOOR), 0.0), project(end), side, obstacle)
    first, last = (x_axis * p[0] + y_axis * p[1] for p in (circle.first, circle.last))
    return Wrap(circle.wrapped > 0.5, first, last, circle.arc)


def _wrap_cylinder(obstacle: Obstacle, start: Vec3, end: Vec3) -> Wrap:
    side = None if obstacle.side is None else (obstacle.side[0], obstacle.side[1])
    a, b = (start.x, start.y), (end.x, end.y)
    circle = _wrap_circle(a, b, side, obstacle)
    before, after = _distance(a, circle.first), _distance(circle.last, b)
    slope = (end.z - start.z) / (before + circle.arc + after)
    first_height = start.z + slope * before
    rise = slope * circle.arc
    return Wrap(
        circle.wrapped > 0.5,
        Vec3(*circle.first, first_height),
        Vec3(*circle.last, first_height + rise),
        sqrt(circle.arc * circle.arc + rise * rise + FLOOR),
    )


def _wrap_circle(a: Point, b: Point, side: Point | None, obstacle: Obstacle) -> _Circle:
    if obstacle.inside:
        return _inside(a, b, obstacle.radius)
    return _around(a, b, obstacle.radius, side)


def _around(a: Point, b: Point, radius: float, side: Point | None) -> _Circle:
    """Return the shorter way around the circle, or the longer one where the straight line passes behind the center."""
    behind = 0.0 if side is None else _passes_behind(a, b, side)
    turn = where(_cross(a, b) > 0.0, -1.0, 1.0) * (1.0 - 2.0 * behind)
    first, last, arc = _tangents(a, b, radius, turn)
    nearest = _nearest(a, b)
    square = radius * radius
    wrapped = where(_dot(nearest, nearest) > square, behind, 1.0) * _both_outside(a, b, square)
    return _Circle(wrapped, first, last, arc)


def _passes_behind(a: Point, b: Point, side: Point) -> Real:
    """Return 1 if the line from a to b crosses the ray from the origin away from the side, else 0."""
    left, right = _cross(side, a), _cross(side, b)
    # The line meets the axis of the side at (a · right − b · left) / (right − left).
    along = _dot(side, a) * right - _dot(side, b) * left
    downward = where(left < 0.0, where(right < 0.0, 0.0, where(along < 0.0, 1.0, 0.0)), 0.0)
    upward = where(left < 0.0, 0.0, where(right < 0.0, where(along > 0.0, 1.0, 0.0), 0.0))
    return downward + upward


def _tangents(a: Point, b: Point, radius: float, turn: Real) -> tuple[Point, Point, Real]:
    """Return the points of tangency from a and from b, and the arc; `turn` is 1 for clockwise, −1 for the opposite."""
    first = _tangent(a, radius, turn)
    last = _tangent(b, radius, -turn)
    angle = atan2(-(turn * _cross(first, last)), _dot(first, last))
    # Rounding makes the angle of a line that just touches slightly negative.
    angle = where(angle < -1e-6, angle + 2.0 * math.pi, maximum(0.0, angle))
    return first, last, angle * radius


def _tangent(point: Point, radius: float, turn: Real) -> Point:
    x, y = point
    square = radius * radius
    length = _dot(point, point)
    reach = sqrt(maximum(length - square, 0.0) + FLOOR) * (turn * radius)
    scale = 1.0 / (length + FLOOR)
    return (x * square + y * reach) * scale, (y * square - x * reach) * scale


def _inside(a: Point, b: Point, radius: float) -> _Circle:
    """Return the point of the circle at which a path from a to b is reflected.

    With A, B the ratios of radius and distance of the ends, and G the angle between them, the angle of incidence x
    solves asin(A sin x) + asin(B sin x) − 2 x + G = 0.
    """
    lengths = [sqrt(_dot(p, p) + FLOOR) for p in (a, b)]
    ratios = [radius / length for length in lengths]
    between = atan2(sqrt(_cross(a, b) * _cross(a, b) + FLOOR), _dot(a, b))
    fixed_ratios, fixed_between = [stop_gradient(r) for r in ratios], stop_gradient(between)

    def residual(x: Real, ratios: Sequence[Real], between: Real) -> Real:
        return _asin(ratios[0] * sin(x)) + _asin(ratios[1] * sin(x)) - 2.0 * x + between

    def slope(x: Real) -> Real:
        return sum((ratio * cos(x) / _cosine(ratio * sin(x)) for ratio in fixed_ratios), -2.0)

    x: Real = 0.5 * math.pi
    for _ in range(NEWTON_STEPS):
        error = residual(x, fixed_ratios, fixed_between)
        x = where(error * error > TOLERANCE**2, clip(x - error / slope(x), 0.0, 0.5 * math.pi), x)
    x = stop_gradient(x)
    # The same value, with the derivative of the solution instead of that of the iteration.
    error = residual(x, ratios, between)
    x = x - (error - stop_gradient(error)) / stop_gradient(slope(x))
    # Turn from the end that the other one is counterclockwise of.
    ahead = _cross(a, b) > 0.0
    base_x, base_y = (where(ahead, p / lengths[0], q / lengths[1]) for p, q in zip(a, b, strict=True))
    turn = x - where(ahead, _asin(ratios[0] * sin(x)), _asin(ratios[1] * sin(x)))
    c, s = cos(turn) * radius, sin(turn) * radius
    point = (c * base_x - s * base_y, s * base_x + c * base_y)
    nearest = _nearest(a, b)
    square = radius * radius
    wrapped = where(_dot(nearest, nearest) > square, _both_outside(a, b, square), 0.0)
    return _Circle(wrapped, point, point, 0.0)


def _both_outside(a: Point, b: Point, square: float) -> Real:
    """Return 1 if both points lie outside the circle of this squared radius, else 0."""
    return where(_dot(a, a) < square, 0.0, where(_dot(b, b) < square, 0.0, 1.0))


def _nearest(a: Point, b: Point) -> Point:
    """Return the point between a and b that is nearest to the origin."""
    step = (b[0] - a[0], b[1] - a[1])
    t = clip(-(_dot(step, a) / (_dot(step, step) + FLOOR)), 0.0, 1.0)
    return a[0] + step[0] * t, a[1] + step[1] * t


def _dot(a: Point, b: Point) -> Real:
    return a[0] * b[0] + a[1] * b[1]


def _cross(a: Point, b: Point) -> Real:
    return a[0] * b[1] - a[1] * b[0]


def _distance(a: Point, b: Point) -> Real:
    step = (b[0] - a[0], b[1] - a[1])
    return sqrt(_dot(step, step) + FLOOR)


def _cosine(sine: Real) -> Real:
    return sqrt(maximum(1.0 - sine * sine, FLOOR))


def _asin(x: Real) -> Real:
    return atan2(x, _cosine(x))
