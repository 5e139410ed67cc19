"""Parameters of tendons, and constants of the whole model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ahac.sim.compiler.graph import Real
from ahac.sim.model.parameters.domains import FREE, NON_NEGATIVE
from ahac.sim.model.parameters.draft import Draft
from ahac.sim.model.parameters.elements import XYZ, Element, Elements, Find, Put, three
from ahac.sim.model.types import Model, Tendon

__all__ = [
    "fluid",
    "gravity",
    "put_gravity",
    "put_wind",
    "tendon",
    "wind",
]


def tendon(constant: str, unit: str) -> tuple[Find, Put]:
    """Return where a constant of tendons is, and how to set it: dry friction, or the linear coefficient of others."""

    def elements(model: Model) -> Elements:
        found = {each.name: getattr(each, constant) for each in model.tendons}
        linear = {name: x if isinstance(x, float) else (*x, 0.0)[0] for name, x in found.items()}
        return {name: Element((x,), unit, NON_NEGATIVE) for name, x in linear.items()}

    def put(draft: Draft, name: str, values: Sequence[Real]) -> None:
        def change(tendon: Tendon) -> Tendon:
            old = getattr(tendon, constant)
            changed: dict[str, Any] = {constant: values[0] if isinstance(old, float) else (values[0], *old[1:])}
            return replace(tendon, **changed)

        draft.tendon(name, change)

    return elements, put


def gravity(model: Model) -> Elements:
    """Return the gravity."""
    return {"": Element(model.gravity, "m/s²", FREE, XYZ)}


def put_gravity(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set the gravity."""
    draft.gravity = three(values)


def fluid(constant: str, unit: str) -> tuple[Find, Put]:
    """Return where a constant of the fluid is, and how to set it."""

    def elements(model: Model) -> Elements:
        return {} if model.fluid is None else {"": Element((getattr(model.fluid, constant),), unit, NON_NEGATIVE)}

    def put(draft: Draft, name: str, values: Sequence[Real]) -> None:
        assert draft.fluid is not None, "only a model with a fluid has this parameter"
        changed: dict[str, Any] = {constant: values[0]}
        draft.fluid = replace(draft.fluid, **changed)

    return elements, put


def wind(model: Model) -> Elements:
    """Return the velocity of the fluid."""
    return {} if model.fluid is None else {"": Element(model.fluid.wind, "m/s", FREE, XYZ)}


def put_wind(draft: Draft, name: str, values: Sequence[Real]) -> None:
    """Set the velocity of the fluid."""
    assert draft.fluid is not None, "only a model with a fluid has this parameter"
    draft.fluid = replace(draft.fluid, wind=three(values))
