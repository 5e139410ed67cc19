"""Tendons: straight lines through waypoints, and the wrenches that a force along them exerts on links.

The length of a segment between two links changes at the rate d·(u₂ − u₁), with d the segment's direction and u₁, u₂ the
velocities of its ends. So a force along the tendon acts on the far end along +d and on the near end along −d. Both ends
lie on the line of the force, so its moment about one origin is the same at either. Hence all segments between the same
two links add up to one wrench. It is computed in the axes of the near link, where that link's waypoints are constants.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ahac.sim.compiler.graph import Real
from ahac.sim.model.types import WORLD, Tendon, Vector
from ahac.sim.physics.algebra import ZERO, ZERO_SPATIAL, Mat3, Spatial, Vec3, norm
from ahac.sim.physics.kinematics import Motion
from ahac.sim.physics.segment_loops import SegmentLoops, segment_ends, segment_line, segment_wrench

__all__ = ["Segment", "TendonForces"]

IDENTITY = Mat3.of(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))


@dataclass(frozen=True)
class Segment:
    """The part of a tendon between two links, in the axes of the near link."""

    pair: tuple[int, int]
    """Links of the near and the far end; the near one comes first in the tree, and the world before all links."""
    arm: Vec3
    """Position of the near end in the near link's frame."""
    line: Vec3
    """Vector from the near to the far end."""
    span: Real
    """Length [m]."""
    speed: Real
    """Rate of change of the length [m/s]."""


@dataclass
class TendonForces:
    """Accumulates the forces of all tendons of a world."""

    motion: Motion
    loops: SegmentLoops = field(default_factory=SegmentLoops)
    """Segments whose wrenches are computed in loops."""
    _views: dict[tuple[int, int], tuple[Vec3, Mat3]] = field(default_factory=dict)
    _wrenches: dict[tuple[int, int], Spatial] = field(default_factory=dict)

    def segments(self, tendon: Tendon) -> tuple[float, list[Segment]]:
        """Return the total length of segments with both ends on one link, which is constant, and all other segments."""
        constant, segments = 0.0, []
        for (near, near_at), (far, far_at) in segment_ends(tendon):
            if near == far:
                constant += float(sum((a - b) ** 2 for a, b in zip(near_at, far_at, strict=True)) ** 0.5)
            else:
                segments.append(self._segment(near, near_at, far, far_at))
        return constant, segments

    def pull(self, segment: Segment, force: Real) -> None:
        """Apply a force that drives the segment's ends apart; a negative one pulls them together."""
        self._add(segment.pair, segment_wrench(segment.arm, segment.line, segment.span, force))

    def wrenches(self) -> dict[int, Spatial]:
        """Return the total wrench on each link, in world axes about its tree's origin."""
        for pair in self.loops.pairs:
            self._add(pair, self.loops.wrench(pair, *self._view(*pair)))
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
        arm = Vec3.of(near_at)
        line = segment_line(*self._view(near, far), arm, Vec3.of(far_at))
        span = norm(line)
        _, axes = self._frame(near)
        speed = (axes @ line).dot(self._velocity(far, far_at) - self._velocity(near, near_at)) / span
        return Segment((near, far), arm, line, span, speed)

    def _add(self, pair: tuple[int, int], wrench: Spatial) -> None:
        self._wrenches[pair] = self._wrenches.get(pair, ZERO_SPATIAL) + wrench

    def _view(self, near: int, far: int) -> tuple[Vec3, Mat3]:
        """Return position and rotation of the far link's frame in the near link's frame."""
        if (near, far) not in self._views:
            self._views[near, far] = self._relative_pose(near, far)
        return self._views[near, far]

    def _relative_pose(self, near: int, far: int) -> tuple[Vec3, Mat3]:
        (x0, r0), (x1, r1) = self._frame(near), self._frame(far)
        between = x1 - x0
        if self._origin(near) is not self._origin(far):
            between = between + (self._origin(far) - self._origin(near))
        inverse = r0.transpose()
        return inverse @ between, inverse.times(r1)

    def _frame(self, link: int) -> tuple[Vec3, Mat3]:
        """Return a link's position relative to its tree's origin, and its axes."""
        return (ZERO, IDENTITY) if link == WORLD else (self.motion.position[link], self.motion.rotation[link])

    def _origin(self, link: int) -> Vec3:
        return ZERO if link == WORLD else self.motion.origin[link]

    def _velocity(self, link: int, at: Vector) -> Vec3:
        if link == WORLD:
            return ZERO
        x = self.motion.position[link] + self.motion.rotation[link] @ Vec3.of(at)
        return self.motion.velocity[link].at(x)
