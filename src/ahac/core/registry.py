"""Registries of named factories, which other packages can extend through entry points."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from ahac.core.errors import InputError
from ahac.core.text import suggestion

__all__ = ["Registry"]

Product = TypeVar("Product")


class Registry(Generic[Product]):
    """Factories by name: built-in ones, those of other packages, and those that a program adds at run time."""

    def __init__(self, kind: str, group: str) -> None:
        """Create a registry.

        Args:
            kind: What the factories create, for error messages.
            group: Entry point group through which other packages add factories.
        """
        self.kind = kind
        self.group = group
        self._factories: dict[str, Callable[..., Product]] = {}
        self._builtin: set[str] = set()

    def add(self, name: str, factory: Callable[..., Product], builtin: bool = False) -> None:
        """Register a factory under a name, in place of one registered before unless that is built in.

        Programs may register a name again, as a notebook cell does that runs twice.
        """
        if not callable(factory):
            raise InputError(f"{self.kind} {name!r} must be a function that creates one, got {factory!r}")
        if name in self._builtin:
            raise InputError(f"the {self.kind} {name!r} is built in; choose another name")
        if builtin:
            self._builtin.add(name)
        self._factories[name] = factory

    def names(self) -> list[str]:
        """Return all names: registered ones first, then those of entry points."""
        external = [entry.name for entry in entry_points(group=self.group)]
        return [*self._factories, *(name for name in external if name not in self._factories)]

    def lookup(self, name: str) -> Callable[..., Product]:
        """Return the factory with the given name; registered ones take precedence over entry points."""
        if name in self._factories:
            return self._factories[name]
        for entry in entry_points(group=self.group):
            if entry.name == name:
                return entry.load()
        known = self.names()
        raise InputError(f"no {self.kind} named {name!r}{suggestion(name, known)}; known: {', '.join(known)}")
