"""Sets of physical values of a parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

__all__ = ["FREE", "INTERVAL", "MOMENTS", "NON_NEGATIVE", "POSITIVE", "Domain", "Shape", "between"]


class Shape(Enum):
    """How the numbers of a parameter are restricted."""

    EACH = "each"
    """Each number lies between the bounds."""
    MOMENTS = "moments"
    """Three principal moments of inertia: positive, and none exceeds the sum of the others."""
    INTERVAL = "interval"
    """A lower and an upper end, in this order."""


@dataclass(frozen=True)
class Domain:
    """The physical values of a parameter."""

    lower: float = -math.inf
    upper: float = math.inf
    shape: Shape = Shape.EACH
    strict: bool = False
    """Whether the lower bound itself is excluded."""

    def describe(self) -> str:
        """Return the range of a single number in words."""
        if math.isfinite(self.upper):
            return f"between {self.lower:g} and {self.upper:g}"
        if self.lower == -math.inf:
            return "finite"
        return "positive" if self.strict else "non-negative"


FREE = Domain()
POSITIVE = Domain(lower=0.0, strict=True)
NON_NEGATIVE = Domain(lower=0.0)
MOMENTS = Domain(lower=0.0, strict=True, shape=Shape.MOMENTS)
INTERVAL = Domain(shape=Shape.INTERVAL)


def between(lower: float, upper: float) -> Domain:
    """Return the values from `lower` to `upper`."""
    return Domain(lower=lower, upper=upper)
