"""Loops over tendon segments: the wrench between two links of all segments whose forces do not depend on their lengths.

A muscle's tension is activation · strength. So the segments between two links differ only in the positions of their
ends, which are constants, and in their forces. One loop per pair of links sums up their wrenches, so code and compile
time grow with the number of pairs instead of segments.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.loops import RowFunction, sum_over_rows
from ahac.sim.compiler.operations import nonzero
from ahac.sim.model.types import Actuator, Model, Tendon, Vector
from ahac.sim.physics.algebra import Mat3, Spatial, Vec3, norm

__all__ = ["SegmentLoops", "needs_length", "segment_ends", "segment_line", "segment_wrench", "worth_looping"]

MIN_LOOPED_SEGMENTS = 64
"""Models with fewer segments are unrolled, since a loop rounds the last bits of gradients differently."""

Pair = tuple[int, int]


def segment_ends(tendon: Tendon) -> list[tuple[tuple[int, Vector], tuple[int, Vector]]]:
    """Return near and far end (link, position) of every segment; the near link comes first in the tree."""
    pairs = zip(tendon.points, tendon.points[1:], strict=False)
    return [(a, b) if a <= b else (b, a) for a, b in pairs]


def segment_line(offset: Vec3, rotation: Mat3, arm: Vec3, far_at: Vec3) -> Vec3:
    """Return the vector from the near end at `arm` to the far end, in the near link's frame.

    Args:
        offset: Position of the far link's frame in the near link's frame.
        rotation: Rotation of the far link's frame relative to the near one.
        arm: Near end in the near link's frame.
        far_at: Far end in the far link's frame.
    """
    return (offset - arm) + rotation @ far_at


def segment_wrench(arm: Vec3, line: Vec3, span: Real, force: Real) -> Spatial:
    """Return the wrench on the far link of a force that drives the ends of a segment of length `span` apart."""
    on_far = line * (force / span)
    return Spatial(arm.cross(on_far), on_far)


def needs_length(actuator: Actuator) -> bool:
    """Return whether an actuator's force depends on its length or speed."""
    curves = actuator.gain_curves or actuator.bias_curves
    return curves is not None or any(map(nonzero, (*actuator.bias[1:], *actuator.gain_slopes)))


def worth_looping(model: Model) -> bool:
    """Return whether the segments that can be looped over are many."""
    tendons = [a.tendon for a in model.actuators if a.tendon is not None and a.tendon.straight and not needs_length(a)]
    between_links = [near for tendon in tendons for near, far in segment_ends(tendon) if near[0] != far[0]]
    return len(between_links) >= MIN_LOOPED_SEGMENTS


def _pull(arguments: list[Real], row: list[Real], varying: list[Real]) -> list[Real]:
    """Return the wrench of one segment: offset and rotation; positions of its ends; force -> moment, force."""
    x, y, z, *r = arguments
    rotation = Mat3(Vec3(*r[0:3]), Vec3(*r[3:6]), Vec3(*r[6:9]))
    arm = Vec3(*row[0:3])
    line = segment_line(Vec3(x, y, z), rotation, arm, Vec3(*row[3:6]))
    wrench = segment_wrench(arm, line, norm(line), varying[0])
    return [*wrench.angular, *wrench.linear]


PULL = RowFunction(_pull, num_arguments=12, row_size=6, num_varying=1)


@dataclass
class SegmentLoops:
    """Collects segments by pair of links."""

    _rows: dict[Pair, list[tuple[float, ...]]] = field(default_factory=dict)
    _forces: dict[Pair, list[tuple[Real]]] = field(default_factory=dict)

    @property
    def pairs(self) -> list[Pair]:
        """Pairs of links with segments between them, in the order in which they were first pulled."""
        return list(self._rows)

    def pull(self, tendon: Tendon, force: Real) -> None:
        """Apply a force that drives the ends of all segments of a tendon apart."""
        for (near, near_at), (far, far_at) in segment_ends(tendon):
            if near != far:
                self._rows.setdefault((near, far), []).append((*near_at, *far_at))
                self._forces.setdefault((near, far), []).append((force,))

    def wrench(self, pair: Pair, offset: Vec3, rotation: Mat3) -> Spatial:
        """Return the total wrench on the far link, in the axes of the near link about its position."""
        arguments = [*offset, *(x for row in rotation.rows for x in row)]
        sums = sum_over_rows(PULL, arguments, self._rows[pair], self._forces[pair])
        return Spatial(Vec3(*sums[:3]), Vec3(*sums[3:]))
