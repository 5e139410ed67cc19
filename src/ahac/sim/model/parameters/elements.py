"""Elements of a model that have a parameter, and conversions that all kinds share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ahac.sim.compiler.graph import Real
from ahac.sim.model.basics import RealVector
from ahac.sim.model.parameters.domains import Domain
from ahac.sim.model.parameters.draft import Draft
from ahac.sim.model.types import Model

__all__ = ["XYZ", "Element", "Elements", "Find", "Put", "Refusals", "Refuse", "three"]

XYZ = ("x", "y", "z")


@dataclass(frozen=True)
class Element:
    """An element of a model that has a parameter."""

    default: tuple[float, ...]
    unit: str
    domain: Domain
    parts: tuple[str, ...] = ()
    """Names of its numbers if there are several."""
    floating: bool = False
    """Whether it belongs to a free joint: wildcards that match other joints too leave it out."""


Elements = dict[str, Element]
"""Elements by name; the name is empty for a constant of the whole model."""
Find = Callable[[Model], Elements]
Refusals = dict[str, str]
"""Why elements do not have a parameter, by name."""
Refuse = Callable[[Model], Refusals]
Put = Callable[[Draft, str, Sequence[Real]], None]
"""Function model, element, scalars: puts the scalars in place of constants of the element."""


def three(values: Sequence[Real]) -> RealVector:
    """Return three scalars as a vector."""
    x, y, z = values
    return x, y, z
