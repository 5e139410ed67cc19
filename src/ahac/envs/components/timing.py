"""Numbers that are drawn from ranges, and times at which something happens in an episode."""

from __future__ import annotations

from collections.abc import Sequence

from ahac.core.checks import check_finite, check_positive
from ahac.core.errors import InputError
from ahac.envs.draws import Draw
from ahac.sim import Real, World
from ahac.sim.compiler.graph import Condition

__all__ = ["Range", "bounds_of", "check_range", "draw_from", "is_due"]

Range = float | Sequence[float]
"""A number, or the bounds (low, high) between which a number is drawn."""

ROUNDING = 1e-4
"""Times closer than this are equal: an episode's time is rounded [s]."""


def check_range(name: str, value: object, positive: bool = False) -> Range:
    """Return a number, or a tuple (low, high) from any sequence of two; raise InputError for other values."""
    pair = value if isinstance(value, Sequence) else (value, value)
    if len(pair) != 2 or isinstance(value, str):
        raise InputError(f"{name} must be a number or two numbers (low, high), got {value!r}")
    low, high = ((check_positive if positive else check_finite)(name, bound) for bound in pair)
    if low > high:
        raise InputError(f"{name} must be (low, high) with low at most high, got {value!r}")
    return (low, high) if isinstance(value, Sequence) else low


def bounds_of(values: Range) -> tuple[float, float]:
    """Return the smallest and the largest number of a range."""
    low, high = values if isinstance(values, Sequence) else (values, values)
    return low, high


def draw_from(value: Range, draw: Draw) -> Real:
    """Draw a number from a range; a single number needs no random number."""
    return draw(*value) if isinstance(value, Sequence) else value


def is_due(world: World, time: Real) -> Condition | bool:
    """Return whether a time of the episode [s] has come."""
    return world.time > time - ROUNDING
