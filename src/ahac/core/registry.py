"""Names for things that can be made: one table per kind, open to other packages through entry points."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from ahac.core.errors import InputError

__all__ = ["Registry"]

Product = TypeVar("Product")


class Registry(Generic[Product]):
    """What is known by name: our own, what other packages bring, and what a program adds while it runs."""

    def __init__(self, kind: str, group: str) -> None:
        """A table of `kind`s; other packages add to it by entry points of `group`."""
        self.kind = kind
        self.group = group
        self._factories: dict[str, Callable[..., Product]] = {}

    def add(self, name: str, factory: Callable[..., Product]) -> None:
        """Give a factory a name that is not taken yet."""
        if not callable(factory):
            raise InputError(f"{self.kind} {name!r} must be a function that makes one, got {factory!r}")
        if name in self._factories:
            raise InputError(f"there is a {self.kind} named {name!r} already; choose another name")
        self._factories[name] = factory

    def names(self) -> list[str]:
        """All known names, ours first, then what other packages bring."""
        brought = [entry.name for entry in entry_points(group=self.group)]
        return [*self._factories, *(name for name in brought if name not in self._factories)]

    def lookup(self, name: str) -> Callable[..., Product]:
        """The factory of that name."""
        if name in self._factories:
            return self._factories[name]
        for entry in entry_points(group=self.group):
            if entry.name == name:
                return entry.load()
        raise InputError(f"no {self.kind} named {name!r}; known: {', '.join(self.names())}")
