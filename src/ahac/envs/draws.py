"""Random numbers of traced functions: resets, memory and observations draw them one by one.

    draw(-0.1, 0.1)              uniform, the same as draw.uniform
    draw.normal(0.0, 0.05)       normal
    draw.chance(0.02)            1.0 with this probability, otherwise 0.0

Each world gets its own numbers. The environment passes them to the kernel as uniform numbers in [0, 1); all others are
computed from these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import count

from ahac.core.errors import TraceError
from ahac.sim import Real, Scalar, cos, log, sin, sqrt, where

__all__ = ["Draw", "UniformInputs"]


class Draw:
    """Random source of one world; every call returns a new number. How many it returns must not vary between traces."""

    def __init__(self, numbers: Iterable[Real]) -> None:
        """Draw from uniform numbers in [0, 1)."""
        self._numbers = iter(numbers)
        self._second_normal: Real | None = None

    def __call__(self, low: Real = 0.0, high: Real = 1.0) -> Real:
        """Return a uniform number in [low, high)."""
        return low + (high - low) * self._next()

    def uniform(self, low: Real = 0.0, high: Real = 1.0) -> Real:
        """Return a uniform number in [low, high)."""
        return self(low, high)

    def normal(self, mean: Real = 0.0, std: Real = 1.0) -> Real:
        """Return a normally distributed number.

        Two uniform numbers u, w give two independent normal ones, √(−2 ln(1 − u)) · (cos 2πw, sin 2πw); every second
        call returns the second one.
        """
        unit = self._second_normal
        self._second_normal = None
        if unit is None:
            radius = sqrt(-2.0 * log(1.0 - self._next()))
            angle = (2.0 * math.pi) * self._next()
            unit, self._second_normal = radius * cos(angle), radius * sin(angle)
        return mean + std * unit

    def chance(self, probability: Real) -> Real:
        """Return 1.0 with the given probability, otherwise 0.0."""
        if not isinstance(probability, Scalar) and not 0.0 <= probability <= 1.0:
            raise TraceError(f"a probability must be between 0 and 1, got {probability!r}; use rate · dt for a rate")
        number = self._next()
        return where(number < probability, 1.0, 0.0)

    def _next(self) -> Real:
        number = next(self._numbers, None)
        if number is None:
            raise TraceError(
                "a function of the task drew more random numbers than in its first trace; it must draw equally many "
                "each time it is called"
            )
        return number


class UniformInputs:
    """Input scalars of a trace whose number is not known beforehand, to count what functions draw from both ends."""

    def __init__(self, like: Scalar, group: str) -> None:
        """Add inputs of a group to the graph of a scalar."""
        self._graph = like.graph
        self._group = group
        self._counts = {"front": 0, "back": 0}

    @property
    def count(self) -> int:
        """How many different inputs were used; those from the back count once, even if several functions use them."""
        return sum(self._counts.values())

    def __iter__(self) -> Iterator[Real]:
        return self._inputs("front")

    def __reversed__(self) -> Iterator[Real]:
        return self._inputs("back")

    def _inputs(self, end: str) -> Iterator[Real]:
        for i in count():
            self._counts[end] = max(self._counts[end], i + 1)
            yield self._graph.leaf("input", (f"{self._group} from the {end}", i))
