"""Vectors, frames and limits of a model."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from ahac.core.errors import ModelError
from ahac.sim.compiler.graph import Real, Scalar

__all__ = ["WORLD", "Frame", "JointLimit", "Matrix", "RealVector", "Vector", "require_non_negative"]

Vector = tuple[float, float, float]
Matrix = tuple[Vector, Vector, Vector]
RealVector = tuple[Real, Real, Real]
"""A vector that may contain parameters."""

WORLD = -1
"""Link index of everything that does not move."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A frame fixed to a link: a body or site of the file."""

    link: int
    position: Vector
    rotation: Matrix


def require_non_negative(settings: object) -> None:
    """Raise ModelError if a field of a dataclass is negative or not finite; parameters are not checked here."""
    for item in fields(settings):  # pyright: ignore[reportArgumentType]
        value = getattr(settings, item.name)
        if (value is None and item.default is None) or isinstance(value, Scalar):
            continue
        if not (isinstance(value, float | int) and math.isfinite(value) and value >= 0.0):
            name = f"{type(settings).__name__}.{item.name}"
            raise ModelError(f"{name} must be a finite, non-negative number, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class JointLimit:
    """Force that pushes a joint back into its range: stiffness · violation − damping · speed, zero inside.

    Fields that are None are chosen by the simulator: from the inertia of the joint for implicit integration, 1e3 and 1
    for explicit integration.
    """

    stiffness: float | None = None
    """Force per violation [N m/rad] or [N/m]."""

    damping: float | None = None
    """Force per speed [N m s/rad] or [N s/m]; explicit substeps of h seconds are stable if h · damping < joint
    inertia."""

    def __post_init__(self) -> None:
        require_non_negative(self)
