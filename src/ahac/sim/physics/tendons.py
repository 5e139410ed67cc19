"""Tendons: straight lines through way-points, and what a force along them does to the links they join.

A tendon's length changes by d·(u₂ − u₁) on every segment whose ends sit on different links, with d the segment's
direction; so a force along it pushes the far end by +d and the near end by −d. Both ends lie on the force's line: about
one origin its moment is the same at either. So all segments between the same two links add up to one wrench, which is
found in the axes of one of them, where that one's way-points are constants.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ahac.sim.compiler.graph import Real
from ahac.sim.model.types import WORLD, Tendon, Vector
from ahac.sim.physics.algebra import ZERO, ZERO_SPATIAL, Mat3, Spatial, Vec3, norm
from ahac.sim.physics.kinematics import Motion

__all__ = ["Segment", "TendonForces"]

IDENTITY = Mat3.of(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))


@dataclass(frozen=True)
class Segment:
    """The part of a tendon between two links, in the axes of the first one."""

    pair: tuple[int, int]
    """Links of the near and the far end; the one that comes first in the tree counts as near, or the world."""
    arm: Vec3
    """The near end, from the near link's frame."""
    line: Vec3
    """From near to far end."""
    span: Real
    """Its length [m]."""
    speed: Real
    """At which it grows [m/s]."""


@dataclass
class TendonForces:
    """Gathers the forces of all tendons of a world."""

    motion: Motion
    _views: dict[tuple[int, int], tuple[Vec3, Mat3]] = field(default_factory=dict)
    _wrenches: dict[tuple[int, int], Spatial] = field(default_factory=dict)

    def segments(self, tendon: Tendon) -> tuple[float, list[Segment]]:
        """Length of all parts that never change, because both ends ride on one link; and the parts that do change."""
        constant, found = 0.0, []
        for (near, near_at), (far, far_at) in zip(tendon.points, tendon.points[1:], strict=False):
            if near == far:
                constant += float(sum((a - b) ** 2 for a, b in zip(near_at, far_at, strict=True)) ** 0.5)
            else:
                ends = sorted([(near, near_at), (far, far_at)])
                found.append(self._segment(*ends[0], *ends[1]))
        return constant, found

    def pull(self, segment: Segment, force: Real) -> None:
        """Push the segment's far end away from its near end."""
        push = segment.line * (force / segment.span)
        wrench = Spatial(segment.arm.cross(push), push)
        self._wrenches[segment.pair] = self._wrenches.get(segment.pair, ZERO_SPATIAL) + wrench

    def wrenches(self) -> dict[int, Spatial]:
        """What all of them do to each link, in world axes about its tree's origin."""
        total: dict[int, Spatial] = {}
        for (near, far), wrench in self._wrenches.items():
            position, axes = self._frame(near)
            force = axes @ wrench.linear
            on_near = Spatial(axes @ wrench.angular + position.cross(force), force)
            on_far = on_near
            if self._origin(near) is not self._origin(far):
                shift = self._origin(near) - self._origin(far)
                on_far = Spatial(on_near.angular + shift.cross(force), force)
            total[far] = total.get(far, ZERO_SPATIAL) + on_far
            if near != WORLD:
                total[near] = total.get(near, ZERO_SPATIAL) - on_near
        return total

    def _segment(self, near: int, near_at: Vector, far: int, far_at: Vector) -> Segment:
        if (near, far) not in self._views:
            self._views[near, far] = self._view(near, far)
        offset, turn = self._views[near, far]
        arm = Vec3.of(near_at)
        line = (offset - arm) + turn @ Vec3.of(far_at)
        span = norm(line)
        _, axes = self._frame(near)
        speed = (axes @ line).dot(self._velocity(far, far_at) - self._velocity(near, near_at)) / span
        return Segment((near, far), arm, line, span, speed)

    def _view(self, near: int, far: int) -> tuple[Vec3, Mat3]:
        """Position and rotation of the far link's frame, as seen from the near one's."""
        (x0, r0), (x1, r1) = self._frame(near), self._frame(far)
        between = x1 - x0
        if self._origin(near) is not self._origin(far):
            between = between + (self._origin(far) - self._origin(near))
        inverse = r0.transpose()
        return inverse @ between, inverse.times(r1)

    def _frame(self, link: int) -> tuple[Vec3, Mat3]:
        """Position from the tree's origin, and axes."""
        return (ZERO, IDENTITY) if link == WORLD else (self.motion.position[link], self.motion.rotation[link])

    def _origin(self, link: int) -> Vec3:
        return ZERO if link == WORLD else self.motion.origin[link]

    def _velocity(self, link: int, at: Vector) -> Vec3:
        if link == WORLD:
            return ZERO
        x = self.motion.position[link] + self.motion.rotation[link] @ Vec3.of(at)
        return self.motion.velocity[link].at(x)
