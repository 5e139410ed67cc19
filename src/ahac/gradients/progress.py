"""Progress reporting: the caller of a study passes a progress bar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

__all__ = ["Track", "silent"]

Item = TypeVar("Item")


class Track(Protocol):
    """Iterates over items and may show a progress bar."""

    def __call__(self, items: Sequence[Item], label: str) -> Iterable[Item]:
        """Return an iterable over the items."""
        ...


def silent(items: Sequence[Item], label: str) -> Iterable[Item]:
    """Iterate without a progress bar."""
    return items
