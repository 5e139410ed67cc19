"""Force-length-velocity curves of muscles, as MuJoCo defines them: piecewise quadratic, with continuous slopes.

L is the length and V the speed, normalized by the optimal length and by the largest shortening speed. The tension is

    peak force · (activation · FL(L) · FV(V) + FP(L))
"""

from __future__ import annotations

from dataclasses import dataclass

from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.operations import maximum, minimum, where
from ahac.sim.model.types import MuscleCurves

__all__ = ["Tension", "muscle_tension"]

SMALLEST = 1e-15
"""Lower bound of divisors, as in MuJoCo."""


@dataclass(frozen=True)
class Tension:
    """Tension of a muscle, and its derivatives."""

    force: Real
    """[N]."""
    by_length: Real
    """[N/m]."""
    by_speed: Real
    """[N s/m]."""

    def __add__(self, other: Tension) -> Tension:
        return Tension(self.force + other.force, self.by_length + other.by_length, self.by_speed + other.by_speed)


def muscle_tension(
    active: MuscleCurves | None, passive: MuscleCurves | None, activation: Real, length: Real, speed: Real
) -> Tension:
    """Return the tension of a muscle with the given curves."""
    total = Tension(0.0, 0.0, 0.0)
    if active is not None:
        total = total + _active(active, activation, length, speed)
    return total if passive is None else total + _passive(passive, length)


def _active(curves: MuscleCurves, activation: Real, length: Real, speed: Real) -> Tension:
    at_length, by_length = _force_length(_normalized(curves, length), curves.shortest, curves.longest)
    slowest = max(SMALLEST, curves.optimal_length * curves.shortening_speed)
    at_speed, by_speed = _force_velocity(speed * (1.0 / slowest), curves.lengthening_force)
    peak = activation * curves.peak_force
    return Tension(
        peak * at_length * at_speed,
        peak * by_length * at_speed * (1.0 / max(SMALLEST, curves.optimal_length)),
        peak * at_length * by_speed * (1.0 / slowest),
    )


def _passive(curves: MuscleCurves, length: Real) -> Tension:
    """Return the tension without activation: quadratic beyond the optimal length, then linear."""
    half = max(SMALLEST, 0.5 * (curves.longest - 1.0))
    x = maximum(0.0, _normalized(curves, length) - 1.0) * (1.0 / half)
    bent = minimum(x, 1.0)
    peak = curves.peak_force * curves.passive_force
    slope = peak / (half * max(SMALLEST, curves.optimal_length))
    return Tension((0.5 * (bent * bent) + (x - bent) * bent) * peak, bent * slope, 0.0)


def _normalized(curves: MuscleCurves, length: Real) -> Real:
    return (length - curves.origin) * (1.0 / max(SMALLEST, curves.optimal_length)) + curves.offset


def _force_length(x: Real, shortest: float, longest: float) -> tuple[Real, Real]:
    """Return a bump of height one at x = 1 that vanishes outside [shortest, longest], and its slope.

    It consists of two quadratics on each side.
    """
    below, falling = _half_bump(1.0 - x, 1.0 - shortest)
    above, rising = _half_bump(x - 1.0, longest - 1.0)
    return where(x < 1.0, below, above), where(x < 1.0, -falling, rising)


def _half_bump(distance: Real, width: float) -> tuple[Real, Real]:
    scale = 1.0 / max(SMALLEST, 0.5 * width)
    y = distance * scale
    rest = maximum(0.0, 2.0 - y)
    return where(y < 1.0, 1.0 - 0.5 * (y * y), 0.5 * (rest * rest)), -(where(y < 1.0, y, rest) * scale)


def _force_velocity(v: Real, most: float) -> tuple[Real, Real]:
    """Return a curve that is zero at v = −1, one at v = 0, and `most` beyond v = most − 1, and its slope."""
    scale = 1.0 / max(SMALLEST, most - 1.0)
    shortening = maximum(0.0, v + 1.0)
    slack = maximum(0.0, (most - 1.0) - v)
    force = where(v < 0.0, shortening * shortening, most - slack * slack * scale)
    return force, where(v < 0.0, 2.0 * shortening, 2.0 * slack * scale)
