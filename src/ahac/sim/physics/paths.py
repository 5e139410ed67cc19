"""Paths along which a force acts: their length, and its derivative by the velocity coordinates, the Jacobian.

A path consists of lines between two links. A unit force along a line acts on the far link as a wrench, and on the near
link as the opposite one. So the Jacobian of the line's length has the entry S_k · wrench for every coordinate k that
moves only one of the links. For a tendon, both ends lie on the line of the force, and a tendon that wraps around an
obstacle consists of two such lines: the arc between them moves with the obstacle, and the change of its length is of
second order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.operations import where
from ahac.sim.model.types import WORLD, Frame, Model, Obstacle, Tendon, Vector
from ahac.sim.physics.algebra import ZERO, ZERO_SPATIAL, Mat3, Spatial, Vec3, norm
from ahac.sim.physics.kinematics import Motion
from ahac.sim.physics.wrapping import wrap

__all__ = ["Line", "Path", "Placement", "line_between", "lines_jacobian", "tendon_path"]


@dataclass(frozen=True)
class Line:
    """Wrenches of a unit force between two links, each about the origin of its link's tree."""

    near: int
    far: int
    on_far: Spatial
    on_near: Spatial
    """Minus the wrench on the near link."""


@dataclass(frozen=True)
class Path:
    """Length of a path, and its Jacobian."""

    length: Real
    jacobian: dict[int, Real]
    """Nonzero entries by velocity coordinate."""

    def speed(self, v: Sequence[Real]) -> Real:
        """Return the rate of change of the length."""
        return sum((v[k] * j for k, j in self.jacobian.items()), 0.0)

    def add_force(self, total: list[Real], force: Real) -> None:
        """Add a force along the path to generalized forces."""
        for k, j in self.jacobian.items():
            total[k] = total[k] + j * force


@dataclass(frozen=True)
class Placement:
    """Positions and axes in world axes; positions are relative to the origin of their link's tree."""

    motion: Motion

    def point(self, link: int, at: Vector) -> Vec3:
        """Return the position of a point of a link."""
        if link == WORLD:
            return Vec3.of(at)
        return self.motion.position[link] + self.motion.rotation[link] @ Vec3.of(at)

    def axes(self, frame: Frame) -> Mat3:
        """Return the axes of a frame, as columns."""
        rotation = Mat3.of(frame.rotation)
        return rotation if frame.link == WORLD else self.motion.rotation[frame.link].times(rotation)

    def about(self, position: Vec3, link: int, other: int) -> Vec3:
        """Convert a position relative to the origin of `link`'s tree to one relative to the `other` link's."""
        old, new = self._origin(link), self._origin(other)
        return position if old is new else position + (old - new)

    def _origin(self, link: int) -> Vec3:
        return ZERO if link == WORLD else self.motion.origin[link]


def tendon_path(model: Model, motion: Motion, tendon: Tendon, q: Sequence[Real]) -> Path:
    """Return the path of a tendon."""
    if tendon.joints:
        length = sum((q[i] * coefficient for i, _, coefficient in tendon.joints), 0.0)
        jacobian: dict[int, Real] = {}
        for _, k, coefficient in tendon.joints:
            jacobian[k] = jacobian.get(k, 0.0) + coefficient
        return Path(length, jacobian)
    place = Placement(motion)
    obstacles = dict(tendon.obstacles)
    total: Real = 0.0
    lines: list[Line] = []
    for i, (near, far) in enumerate(zip(tendon.points, tendon.points[1:], strict=False)):
        scale = tendon.scales[i] if tendon.scales else 1.0
        if scale == 0.0:
            continue
        if i in obstacles:
            span, found = _around(place, near, far, obstacles[i])
        else:
            span, found = _straight(place, near, far)
        total = total + span * scale
        lines += [Line(x.near, x.far, x.on_far * scale, x.on_near * scale) for x in found]
    return Path(total, lines_jacobian(model, motion, lines))


def lines_jacobian(model: Model, motion: Motion, lines: Iterable[Line]) -> dict[int, Real]:
    """Return the Jacobian of the length of some lines."""
    wrenches: dict[int, Spatial] = {}
    for line in lines:
        near, far = (model.chain(link) for link in (line.near, line.far))
        for i in far:
            if i not in near:
                wrenches[i] = wrenches.get(i, ZERO_SPATIAL) + line.on_far
        for i in near:
            if i not in far:
                wrenches[i] = wrenches.get(i, ZERO_SPATIAL) - line.on_near
    return {k: motion.joint_subspace[k].dot(wrenches[i]) for i in sorted(wrenches) for k in model.links[i].dofs}


def line_between(place: Placement, near: int, far: int, point: Vec3, force: Vec3) -> Line:
    """Return the line of a force on the far link at `point`, relative to the origin of the far link's tree."""
    on_far = Spatial(point.cross(force), force)
    moved = place.about(point, far, near)
    return Line(near, far, on_far, on_far if moved is point else Spatial(moved.cross(force), force))


def _straight(place: Placement, near: tuple[int, Vector], far: tuple[int, Vector]) -> tuple[Real, list[Line]]:
    if near[0] == far[0]:
        return float(sum((a - b) ** 2 for a, b in zip(near[1], far[1], strict=True)) ** 0.5), []
    end = place.point(*far)
    step = end - place.about(place.point(*near), near[0], far[0])
    span = norm(step)
    return span, [line_between(place, near[0], far[0], end, step * (1.0 / span))]


def _around(
    place: Placement, near: tuple[int, Vector], far: tuple[int, Vector], obstacle: Obstacle
) -> tuple[Real, list[Line]]:
    """Return length and lines of a segment with an obstacle; where it does not touch, both lines are the same."""
    link = obstacle.frame.link
    center, axes = place.point(link, obstacle.frame.position), place.axes(obstacle.frame)
    inverse = axes.transpose()
    ends = [inverse @ (place.about(place.point(*end), end[0], link) - center) for end in (near, far)]
    around = wrap(obstacle, *ends)

    def meeting(touching: Vec3, straight: Vec3) -> Vec3:
        return Vec3(*(where(around.wrapped, a, b) for a, b in zip(touching, straight, strict=True)))

    leaving, arriving = meeting(around.first, ends[1]) - ends[0], ends[1] - meeting(around.last, ends[0])
    spans = [norm(leaving), norm(arriving)]
    length = where(around.wrapped, spans[0] + around.between + spans[1], spans[0])
    lines: list[Line] = []
    for (one, other), point, step, span in zip(
        ((near[0], link), (link, far[0])), ends, (leaving, arriving), spans, strict=True
    ):
        if one != other:
            direction = axes @ (step * (1.0 / span))
            at = place.about(center + axes @ point, link, other)
            lines.append(line_between(place, one, other, at, direction))
    return length, lines
