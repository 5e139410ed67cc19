"""Stages: the device work of an algorithm, run as it is or through an executor.

A stage is a function that only queues device work: its shapes depend on its arguments alone, and it never reads a
tensor on the host. An executor may therefore capture it once and replay it. Algorithms mark their stages and know
nothing about executors:

    class Algorithm:
        @stage
        def _roll_out(self, env, length): ...

    executor.call(algorithm.iterate, env, progress)     # stages inside run through the executor
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, Protocol, TypeVar

__all__ = ["EagerExecutor", "Executor", "active", "stage"]

P = ParamSpec("P")
R = TypeVar("R")


class Executor(Protocol):
    """Decides how stages run."""

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function; the stages that it reaches run through this executor."""
        ...

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run one stage."""
        ...


class EagerExecutor:
    """Runs every stage directly."""

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return function(*args, **kwargs)

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the stage."""
        return function(*args, **kwargs)


_EAGER = EagerExecutor()
_active: ContextVar[Executor] = ContextVar("executor", default=_EAGER)


@contextmanager
def active(executor: Executor) -> Generator[None]:
    """Run the stages inside this block through an executor."""
    token = _active.set(executor)
    try:
        yield
    finally:
        _active.reset(token)


def stage(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function as a stage."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return _active.get().run(function, *args, **kwargs)

    return run
