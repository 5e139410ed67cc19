"""Forces on a world, and what an implicit step needs to know of those that oppose motion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import maximum, where
from ahac.sim.physics.algebra import Spatial, SpatialMatrix

__all__ = ["Dashpot", "Forces", "clipped_coefficient", "implicit_coefficient"]


@dataclass(frozen=True)
class Dashpot:
    """A force −c (J v̇) J that an implicit step adds, along a direction J of joint space.

    A spring and damper along J, taken at the end of a step of h seconds, is the force at the predicted length
    plus this one, with c = h · damping + h² · stiffness.
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
    """Wrench on each link that feels one, about its tree's origin."""
    dashpots: list[Dashpot] = field(default_factory=list)
    """Implicit terms along directions of joint space."""
    link_damping: dict[int, SpatialMatrix] = field(default_factory=dict)
    """Implicit terms on links: h · damping + h² · stiffness of the contacts with static planes."""


def implicit_coefficient(h: Real, damping: Real, stiffness: Real) -> Real:
    """Return h · damping + h² · stiffness; zero in an explicit step, where h is the constant zero."""
    return h * (damping + h * stiffness)


def clipped_coefficient(coefficient: Real, force: Real, bounds: tuple[float, float], inertia: Real) -> Real:
    """Return the implicit coefficient of a force that is clipped to `bounds`, of a servo that moves `inertia`.

    At the end of a step, a servo with force f and coefficient c pushes with f I / (I + c). If that is beyond the bound
    F, it accelerates the inertia at F / I; otherwise at f / (I + c), although f itself may be clipped. So

        c' = max(0, (I + c) F / f − I)

    It is c up to the bound and continuous there. With c' = 0 instead, a strong servo would throw its joint back and
    forth at speeds of h F / I.
    """
    low, high = bounds
    if not isinstance(coefficient, Scalar):
        return coefficient
    if not low < 0.0 < high:
        return where(force < low, 0.0, where(force > high, 0.0, coefficient))
    below, above = force < low, force > high
    ratio = where(below, low, where(above, high, 1.0)) / where(below, force, where(above, force, 1.0))
    return maximum(0.0, (coefficient + inertia) * ratio - inertia)
