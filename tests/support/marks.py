"""Which tests `make test` leaves to `make test-all`: repetitions of what another test of the family shows already."""

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["extended", "keep"]


def extended(*values: object) -> list[Any]:
    """Parameters that `make test` leaves out."""
    return [pytest.param(*_arguments(value), marks=pytest.mark.extended) for value in values]


def keep(count: int, values: Iterable[object]) -> list[Any]:
    """The first parameters as they are, the others for `make test-all`."""
    listed = list(values)
    return [*listed[:count], *extended(*listed[count:])]


def _arguments(value: object) -> tuple[object, ...]:
    """Of one parameter set: several arguments where the value is a tuple of them."""
    return value if type(value) is tuple else (value,)
