"""How a study shows that it goes on: whoever calls it decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

__all__ = ["Track", "silent"]

Item = TypeVar("Item")


class Track(Protocol):
    """Hands items on one by one, and may draw a bar meanwhile."""

    def __call__(self, items: Sequence[Item], label: str) -> Iterable[Item]:
        """The items, as they are."""
        ...


def silent(items: Sequence[Item], label: str) -> Iterable[Item]:
    """No bar."""
    return items
