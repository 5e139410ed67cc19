"""The learned state of an algorithm as one flat dictionary of tensors: snapshots, saving, and checks on loading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.core.rng import is_generator_state

__all__ = ["LearnedState", "all_finite", "check_state", "first_non_finite", "flatten", "section"]

PRECISIONS = (torch.float32, torch.float64)
"""Precisions that saved numbers may be converted between."""
REMEDY = "Load a checkpoint of a run with the same settings"


def flatten(parts: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return all tensors, without copying, under prefixed names such as "actor.net.0.weight"."""
    return {f"{part}.{name}": value.detach() for part, tensors in parts.items() for name, value in tensors.items()}


def section(state: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Return the tensors of one part, without the prefix."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}


class LearnedState:
    """Tensors that training changes in place; their addresses stay the same, so captured CUDA graphs stay valid."""

    def __init__(self, parts: Mapping[str, Mapping[str, Tensor]]) -> None:
        self.tensors = flatten(parts)
        """All tensors by name."""
        self._values = list(self.tensors.values())
        self._saved = [torch.empty_like(value) for value in self._values]

    def save(self) -> None:
        """Take a snapshot of the current values."""
        torch._foreach_copy_(self._saved, self._values)

    def restore(self) -> None:
        """Restore the last snapshot that `save` took."""
        torch._foreach_copy_(self._values, self._saved)

    def restore_unless(self, valid: Tensor, tensors: Mapping[str, Tensor]) -> None:
        """Restore some of the tensors unless `valid`, a bool on the device, is true."""
        saved = dict(zip(self.tensors, self._saved, strict=True))
        for name, tensor in tensors.items():
            tensor.copy_(torch.where(valid, tensor, saved[name]))

    def is_finite(self) -> Tensor:
        """Whether all numbers are finite, as a bool on the device; does not synchronize."""
        return all_finite(self._values)

    def select(self, *prefixes: str) -> dict[str, Tensor]:
        """Return the tensors whose names start with one of the given prefixes."""
        return {name: value for name, value in self.tensors.items() if name.startswith(prefixes)}

    def copies(self) -> dict[str, Tensor]:
        """Return copies of all tensors, for a checkpoint."""
        return {name: value.clone() for name, value in self.tensors.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Load a saved state that has passed `check_state`."""
        for name, value in self.tensors.items():
            value.copy_(state[name])


def all_finite(tensors: Iterable[Tensor]) -> Tensor:
    """Whether all numbers of all tensors are finite, as a bool on their device; does not synchronize."""
    by_dtype: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        by_dtype.setdefault(tensor.dtype, []).append(tensor.flatten())
    # One reduction over all tensors is faster than one for each.
    largest = [torch.cat(group).abs_().amax().double() for group in by_dtype.values()]
    return torch.stack(largest).isfinite().all()


def first_non_finite(state: Mapping[str, Tensor]) -> str | None:
    """Return the name of the first tensor with a non-finite number, or None."""
    return next((name for name, value in state.items() if not bool(value.isfinite().all())), None)


def check_state(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    """Raise if a saved state differs from our own in names, shapes or types, before any of it is used.

    Float32 and float64 are interchangeable, and so are the states of generators on different devices.

    Raises:
        InputError: If a tensor is missing, unknown, or has another shape or type.
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
    """Describe type and shape for an error message."""
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    if is_generator_state(value):
        return "the state of a random generator"
    return f"{str(value.dtype).removeprefix('torch.')} of shape {list(value.shape)}"
