"""Notes on a model: what loading approximates or drops, one line for each topic."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

__all__ = ["Notes", "counted", "without_warnings"]

logger = logging.getLogger("ahac")

_silent: ContextVar[bool] = ContextVar("silent", default=False)


class Notes:
    """Collects the notes of one model."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        """Add a note that only the model carries."""
        self._lines.append(line)

    def warn(self, line: str) -> None:
        """Add a note and log it, once per process."""
        self.add(line)
        if not _silent.get():
            log_once(f"model {self._model!r}: {line}")

    def lines(self) -> tuple[str, ...]:
        """Return all notes."""
        return tuple(self._lines)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Load models without logging their notes, which the user has seen already."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


@cache
def log_once(message: str) -> None:
    """Log a warning, once per process."""
    logger.warning(message)


def counted(elements: Sequence[str]) -> str:
    """Return the first of some elements and the number of the others."""
    return f"{elements[0]}{f' and {len(elements) - 1} more' if len(elements) > 1 else ''}"
