"""Forces on a world, and the implicit terms of those that oppose motion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import maximum, minimum, sqrt, where
from ahac.sim.model.types import JointLimit
from ahac.sim.physics.algebra import Spatial, SpatialMatrix

__all__ = [
    "Dashpot",
    "Forces",
    "clipped_coefficient",
    "dry_friction",
    "implicit_coefficient",
    "limit_constants",
    "range_force",
]


@dataclass(frozen=True)
class Dashpot:
    """A force −c (J v̇) J that an implicit step adds, along a direction J of joint space.

    The force of a spring and damper along J at the end of a step of h seconds is the force at the predicted length plus
    this term, with c = h · damping + h² · stiffness.
    """

    jacobian: Mapping[int, Real]
    """Nonzero entries of J by velocity coordinate."""
    coefficient: Real
    """c [kg m²] or [kg]."""


@dataclass
class Forces:
    """All forces on a world."""

    joint: list[Real]
    """Generalized force of each velocity coordinate."""
    wrenches: dict[int, Spatial] = field(default_factory=dict)
    """Wrench on each link that has one, about its tree's origin."""
    dashpots: list[Dashpot] = field(default_factory=list)
    """Implicit terms along directions of joint space."""
    link_damping: dict[int, SpatialMatrix] = field(default_factory=dict)
    """Implicit terms on links: h · damping + h² · stiffness of the contacts with static planes."""


def implicit_coefficient(h: Real, damping: Real, stiffness: Real) -> Real:
    """Return h · damping + h² · stiffness; zero in an explicit step, where h is the constant zero."""
    return h * (damping + h * stiffness)


def dry_friction(loss: Real, speed: Real, floor: float, h: Real) -> tuple[Real, Real]:
    """Return dry friction, −loss · speed / √(speed² + floor²), and its implicit coefficient.

    An implicit step uses the secant loss / √(speed² + floor²) as damping, which slows motion but never reverses it.
    """
    secant = loss / sqrt(speed * speed + floor**2)
    return -(secant * speed), implicit_coefficient(h, secant, 0.0)


def range_force(
    bounds: tuple[Real, Real], limit: JointLimit, position: Real, speed: Real, h: Real
) -> tuple[Real, Real]:
    """Return stiffness · (bound − position) − damping · speed outside a range, zero inside, and the coefficient."""
    low, high = bounds
    stiffness, damping = limit_constants(limit)
    # Positive below the range, negative above it, zero inside; on a bound the derivative is zero, as inside.
    violation = maximum(0.0, low - position) + minimum(0.0, high - position)
    damped = where(position < low, speed, where(position > high, speed, 0.0))
    force = violation * stiffness - damped * damping
    coefficient = implicit_coefficient(h, damping, stiffness)
    return force, where(position < low, coefficient, where(position > high, coefficient, 0.0))


def limit_constants(limit: JointLimit) -> tuple[float, float]:
    """Return stiffness and damping of a limit; the simulator has chosen those that the model does not set."""
    assert limit.stiffness is not None, "constants are chosen before the physics is traced"
    assert limit.damping is not None, "constants are chosen before the physics is traced"
    return limit.stiffness, limit.damping


def clipped_coefficient(
    coefficient: Real, force: Real, bounds: tuple[float, float], inertia: Real, strength: Real = 1.0
) -> Real:
    """Return the implicit coefficient of a servo that moves `inertia` and whose force is clipped to `bounds`.

    At the end of a step, a servo with force f and coefficient c exerts f I / (I + c). If that is beyond the bound F, it
    should accelerate the inertia at F / I, and otherwise at f / (I + c), although f itself may be clipped. Therefore

        c' = max(0, (I + c) F / f − I)

    This is c up to the bound and continuous there. With c' = 0 instead, a strong servo would throw its joint back and
    forth at speeds of h F / I. This applies only to ranges with zero in their interior. Beyond the bounds of a
    one-sided range, such as that of an actuator that only pulls, c' = 0. `strength` is a factor on the bounds.
    """
    one_sided = not bounds[0] < 0.0 < bounds[1]
    low, high = (bound * strength for bound in bounds)
    if not isinstance(coefficient, Scalar):
        return coefficient
    if one_sided:
        return where(force < low, 0.0, where(force > high, 0.0, coefficient))
    below, above = force < low, force > high
    ratio = where(below, low, where(above, high, 1.0)) / where(below, force, where(above, force, 1.0))
    return maximum(0.0, (coefficient + inertia) * ratio - inertia)
