"""Parameters of tendons, and constants of the whole model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ahac.sim.compiler.graph import Real
from ahac.sim.model.parameters.domains import FREE, NON_NEGATIVE
from ahac.sim.model.parameters.draft import Draft
from ahac.sim.model.parameters.elements import XYZ, Element, Elements, Find, Put, number, three
from ahac.sim.model.types import Model, Tendon

__all__ = [
    "gravity",
    "of_fluid",
    "of_tendon",
    "put_fluid",
    "put_gravity",
    "put_tendon",
    "put_tendon_friction",
    "put_wind",
    "wind",
]


def of_tendon(constant: str, unit: str) -> Find:
    """Return how to find a constant of tendons."""

    def elements(model: Model) -> Elements:
        found: Elements = {}
        for tendon in model.tendons:
            value = getattr(tendon, constant)
            linear = value if isinstance(value, float) else (*value, 0.0)[0]
            found[tendon.name] = Element((linear,), unit, NON_NEGATIVE)
        return found

    return elements


def put_tendon(constant: str) -> Put:
    """Return how to set the linear coefficient of a tendon's spring or damper."""

    def put(draft: Draft, name: str, values: Sequence[Real]) -> None:
        def change(tendon: Tendon) -> Tendon:
            changed: dict[str, Any] = {constant: (values[0], *getattr(tendon, constant)[1:])}
            return replace(tendon, **changed)

        draft.tendon(name, change)

    return put


def put_tendon_friction(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set the dry friction of a tendon."""
    draft.tendon(name, lambda tendon: replace(tendon, frictionloss=values[0]))


def gravity(model: Model) -> Elements:
    """Return the gravity."""
    x, y, z = (number(g) for g in model.gravity)
    return {"": Element((x, y, z), "m/s²", FREE, XYZ)}


def put_gravity(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set the gravity."""
    draft.gravity = three(values)


def of_fluid(constant: str, unit: str) -> Find:
    """Return how to find a constant of the fluid."""

    def elements(model: Model) -> Elements:
        return {} if model.fluid is None else {"": Element((getattr(model.fluid, constant),), unit, NON_NEGATIVE)}

    return elements


def put_fluid(constant: str) -> Put:
    """Return how to set a constant of the fluid."""

    def put(draft: Draft, name: str, values: Sequence[Real]) -> None:
        assert draft.fluid is not None, "only a model with a fluid has this parameter"
        changed: dict[str, Any] = {constant: values[0]}
        draft.fluid = replace(draft.fluid, **changed)

    return put


def wind(model: Model) -> Elements:
    """Return the velocity of the fluid."""
    if model.fluid is None:
        return {}
    x, y, z = (number(w) for w in model.fluid.wind)
    return {"": Element((x, y, z), "m/s", FREE, XYZ)}


def put_wind(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set the velocity of the fluid."""
    assert draft.fluid is not None, "only a model with a fluid has this parameter"
    draft.fluid = replace(draft.fluid, wind=three(values))
