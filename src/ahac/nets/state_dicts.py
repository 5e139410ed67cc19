"""What an algorithm has learned, as one flat dictionary of tensors: kept, taken back, saved, and checked on loading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.core.rng import is_generator_state

__all__ = ["LearnedState", "all_finite", "check_state", "first_non_finite", "flatten", "section"]

PRECISIONS = (torch.float32, torch.float64)
"""Between which saved numbers are converted."""
REMEDY = "Load a checkpoint of a run with the same settings"


def flatten(parts: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """All tensors themselves, no copies; names have their part in front, "actor.net.0.weight"."""
    return {f"{part}.{name}": value.detach() for part, values in parts.items() for name, value in values.items()}


def section(state: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors of one part."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}


class LearnedState:
    """Tensors that learning changes in place. They stay where they are, so recorded work on them stays valid."""

    def __init__(self, parts: Mapping[str, Mapping[str, Tensor]]) -> None:
        self.tensors = flatten(parts)
        """By name."""
        self._values = list(self.tensors.values())
        self._kept = [torch.empty_like(value) for value in self._values]

    def save(self) -> None:
        """Remember everything as it is now."""
        torch._foreach_copy_(self._kept, self._values)

    def restore(self) -> None:
        """Go back to what `keep` remembered."""
        torch._foreach_copy_(self._values, self._kept)

    def restore_unless(self, valid: Tensor, tensors: Mapping[str, Tensor]) -> None:
        """Restore some of the tensors unless `valid`, a bool on the device, is true."""
        saved = dict(zip(self.tensors, self._kept, strict=True))
        for name, tensor in tensors.items():
            tensor.copy_(torch.where(valid, tensor, saved[name]))

    def is_finite(self) -> Tensor:
        """Bool on the device: whether every number is finite. Nothing waits for the device."""
        return all_finite(self._values)

    def select(self, *beginnings: str) -> dict[str, Tensor]:
        """The tensors whose names begin so."""
        return {name: value for name, value in self.tensors.items() if name.startswith(beginnings)}

    def copies(self) -> dict[str, Tensor]:
        """To be saved."""
        return {name: value.clone() for name, value in self.tensors.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take a saved state that `check_state` has accepted."""
        for name, value in self.tensors.items():
            value.copy_(state[name])


def all_finite(tensors: Iterable[Tensor]) -> Tensor:
    """Bool on their device: whether every number of all tensors is finite. Nothing waits for the device."""
    by_dtype: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        by_dtype.setdefault(tensor.dtype, []).append(tensor.flatten())
    # One pass over all of them together is faster than a look at each.
    largest = [torch.cat(same).abs_().amax().double() for same in by_dtype.values()]
    return torch.stack(largest).isfinite().all()


def first_non_finite(state: Mapping[str, Tensor]) -> str | None:
    """Name of the first tensor with a number that is not finite."""
    return next((name for name, value in state.items() if not bool(value.isfinite().all())), None)


def check_state(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    """Refuse a saved state that differs from our own in names, shapes or types, before any of it is used.

    Numbers in float32 and float64 are converted into each other; a generator's state may be of any device.
    """
    extra = [name for name in given if name not in own]
    for name, value in own.items():
        if name not in given:
            instead = f", got {extra[0]!r} instead" if extra else ""
            raise InputError(f"the saved state has no {name!r}{instead}; expected {_kind(value)}. {REMEDY}")
        if not _fits(value, given[name]):
            raise InputError(f"the saved {name!r} is {_kind(given[name])}; expected {_kind(value)}. {REMEDY}")
    if extra:
        raise InputError(f"the saved state has an unknown entry {extra[0]!r}, {_kind(given[extra[0]])}. {REMEDY}")


def _fits(own: Tensor, given: object) -> bool:
    if is_generator_state(own):
        return is_generator_state(given)
    if not isinstance(given, Tensor) or given.shape != own.shape or given.layout != own.layout:
        return False
    return given.dtype == own.dtype or (given.dtype in PRECISIONS and own.dtype in PRECISIONS)


def _kind(value: object) -> str:
    """Type and shape in words."""
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    if is_generator_state(value):
        return "the state of a generator"
    return f"{str(value.dtype).removeprefix('torch.')} of shape {list(value.shape)}"
