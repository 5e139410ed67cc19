"""Select constants of a model by pattern, and put traced scalars in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from ahac.core.checks import check_positive
from ahac.core.errors import InputError
from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.model.parameters import coordinates
from ahac.sim.model.parameters.coordinates import Column
from ahac.sim.model.parameters.domains import between
from ahac.sim.model.parameters.draft import Draft
from ahac.sim.model.parameters.elements import Element
from ahac.sim.model.parameters.kinds import DELAY, KINDS, Kind
from ahac.sim.model.types import Model

__all__ = ["Parameters"]

LISTED = 12
"""An error lists at most this many names."""


class Parameters:
    """Constants of a model that become inputs of the simulation: P numbers per world.

    Create them with `Model.parameters`. Values are tensors [N, P] whose columns are in the order of `labels`.

    Args:
        model: A model from `load_model`.
        patterns: Patterns "kind:name", or "kind" for constants of the whole model.
        max_delay: Largest value of "actuator_delay" [s].
    """

    def __init__(self, model: Model, patterns: Sequence[str], max_delay: float = 0.1) -> None:
        self.model = model
        self.max_delay = check_positive("max_delay", max_delay)
        self._elements = self._select(patterns)
        self.names = tuple(self._elements)
        """Names "kind:element", or "kind" for constants of the whole model, in the order of the patterns."""
        self.sizes = {name: len(element.default) for name, element in self._elements.items()}
        """Number of columns of each parameter."""
        self._columns = [column for name, element in self._elements.items() for column in _columns(name, element)]
        self.size = len(self._columns)
        """Number of columns, P."""
        self.labels = tuple(column.label for column in self._columns)
        """Name of each column, such as "body_ipos:trunk.x"."""
        self.units = tuple(column.unit for column in self._columns)
        """Unit of each column; empty for a number without one."""
        self.lower = tuple(column.domain.lower for column in self._columns)
        """Lower bound of each column."""
        self.upper = tuple(column.domain.upper for column in self._columns)
        """Upper bound of each column."""

    def __repr__(self) -> str:
        return f"Parameters(of model {self.model.name!r}: {self.size} numbers, {', '.join(self.names[:LISTED])})"

    def __contains__(self, name: object) -> bool:
        return name in self.sizes

    def defaults(
        self, num_worlds: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return the model's own values in every world [N, P]."""
        return coordinates.default_values(self._columns, num_worlds, device, dtype)

    def apply(self, model: Model, scalars: Sequence[Real]) -> Model:
        """Return the model with other constants: P numbers, or traced scalars.

        `model` is the one that the parameters were selected from, with or without the constants that the simulator
        chooses for it. "actuator_delay" is not a constant of the model and is left to the simulator.
        """
        self.check_model(model)
        draft = Draft(model)
        for name, values in self.by_name(scalars).items():
            kind, _, element = name.partition(":")
            KINDS[kind].put(draft, element, values)
        return draft.finish()

    def by_name(self, scalars: Sequence[Real]) -> dict[str, list[Real]]:
        """Return P numbers as lists by name."""
        if len(scalars) != self.size:
            raise InputError(f"expected {self.size} numbers, one for each column of the parameters, got {len(scalars)}")
        if unknown := [x for x in scalars if not isinstance(x, float | int | Scalar)]:
            kind = type(unknown[0]).__name__
            raise InputError(
                f"expected {self.size} plain numbers, such as values[0].tolist(), got a {kind} in place of one"
            )
        rest = iter(scalars)
        return {name: [next(rest) for _ in range(size)] for name, size in self.sizes.items()}

    def index(self, pattern: str) -> list[int]:
        """Return the columns of all parameters that match a pattern, such as "body_mass:*" or "body_ipos:trunk.x"."""
        starts = [name for name, size in self.sizes.items() for _ in range(size)]
        found = [i for i, name in enumerate(starts) if fnmatchcase(name, pattern) or self.labels[i] == pattern]
        if not found:
            known = list(dict.fromkeys([*self.names, *self.labels]))
            raise InputError(f"no selected parameter matches {pattern!r}{_hint(pattern, known)}")
        return found

    def check(self, values: Tensor) -> None:
        """Raise InputError if values [N, P] are not physical, such as a negative mass."""
        coordinates.check_values(self._columns, values)

    def check_model(self, model: Model) -> None:
        """Raise InputError if a model lacks some of the parameters or has other default values: it is another model."""
        kinds = dict.fromkeys(name.partition(":")[0] for name in self.names)
        found = {kind: KINDS[kind].elements(model) for kind in kinds}
        for name, element in self._elements.items():
            kind, _, which = name.partition(":")
            other = found[kind].get(which)
            if other is None or other.default != element.default:
                has = "does not have it" if other is None else f"has {_listed(other.default)}"
                raise InputError(
                    f"the parameters were selected from another model: {name!r} is {_listed(element.default)} in "
                    f"{self.model.name!r}, but {model.name!r} {has}; call model.parameters(...) of the model that you "
                    "simulate"
                )

    def constrain(self, free: Tensor) -> Tensor:
        """Map free coordinates [..., P] to physical values, for optimizers; differentiable.

        Values with one bound are exponentials, values between two bounds are sigmoids. Principal moments of inertia are
        sums of second moments of a mass distribution, each an exponential. All others are the coordinates themselves.
        """
        return coordinates.constrain(self._columns, free)

    def unconstrain(self, values: Tensor) -> Tensor:
        """Map physical values [..., P] to free coordinates: the inverse of `constrain`."""
        return coordinates.unconstrain(self._columns, values)

    def _select(self, patterns: Sequence[str]) -> dict[str, Element]:
        if not patterns:
            raise InputError(f"select at least one parameter; kinds: {', '.join(KINDS)}")
        found: dict[str, Element] = {}
        for pattern in patterns:
            for name, element in self._matches(pattern):
                found.setdefault(name, element)
        return found

    def _matches(self, pattern: object) -> Iterator[tuple[str, Element]]:
        if not isinstance(pattern, str):
            raise InputError(f"a pattern is a string such as 'body_mass:*', got {pattern!r}")
        kind_name, colon, glob = pattern.partition(":")
        if kind_name not in KINDS:
            raise InputError(f"no parameter is of kind {kind_name!r}{_hint(kind_name, list(KINDS))}")
        kind = KINDS[kind_name]
        elements = kind.elements(self.model)
        if kind_name == DELAY:
            bounds = between(0.0, self.max_delay)
            elements = {name: replace(element, domain=bounds) for name, element in elements.items()}
        names = [name for name in elements if fnmatchcase(name, glob) and bool(name) == bool(colon)]
        if not names:
            raise InputError(self._explain(pattern, kind, glob, elements))
        fixed = [name for name in names if not elements[name].floating]
        for name in fixed or names:
            yield (f"{kind_name}:{name}" if name else kind_name), elements[name]

    def _explain(self, pattern: str, kind: Kind, glob: str, elements: Mapping[str, Element]) -> str:
        """Return why a pattern matches nothing."""
        if "" in elements:
            return f"{kind.name!r} belongs to the whole model: write {kind.name!r} instead of {pattern!r}"
        if elements and ":" not in pattern:
            example = f"'{kind.name}:{next(iter(elements))}'"
            return f"{kind.name!r} belongs to single elements: write '{kind.name}:*' or {example}"
        reasons = {name: why for name, why in kind.refusals(self.model).items() if fnmatchcase(name, glob)}
        if reasons:
            name, why = next(iter(reasons.items()))
            return f"{kind.name} of {name!r} cannot be a parameter: {why}{_hint(glob, list(elements))}"
        if not elements:
            return f"nothing in model {self.model.name!r} has the parameter {kind.name!r} ({kind.meaning})"
        return f"{pattern!r} matches nothing in model {self.model.name!r}{_hint(glob, list(elements))}"


def _columns(name: str, element: Element) -> Iterator[Column]:
    for i, value in enumerate(element.default):
        label = f"{name}.{element.parts[i]}" if element.parts else name
        yield Column(label, value, element.unit, element.domain, i)


def _listed(values: Sequence[float]) -> str:
    return " ".join(f"{value:g}" for value in values)


def _hint(name: str, known: Sequence[str]) -> str:
    """Return the end of an error about an unknown name: similar names first, then others."""
    close = get_close_matches(name, known, n=3, cutoff=0.6)
    more = "" if len(known) <= LISTED else f" and {len(known) - LISTED} more"
    guess = f"did you mean {', '.join(close)}? " if close else ""
    return f"; {guess}available: {', '.join(known[:LISTED]) or 'none'}{more}"
