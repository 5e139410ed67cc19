"""What parts of an algorithm remember, as one flat dictionary of tensors and back."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

__all__ = ["gathered", "part"]


def gathered(parts: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Copies of all tensors; names have their part in front, "actor.net.0.weight"."""
    return {
        f"{part}.{name}": value.detach().clone() for part, values in parts.items() for name, value in values.items()
    }


def part(state: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors of one part."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
