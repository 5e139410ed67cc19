"""Notes on a model: what loading approximates or drops, one line for each topic."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache

__all__ = ["Notes", "counted"]

logger = logging.getLogger("ahac")


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
        log_once(f"model {self._model!r}: {line}")

    def lines(self) -> tuple[str, ...]:
        """Return all notes."""
        return tuple(self._lines)


@cache
def log_once(message: str) -> None:
    """Log a warning, once per process."""
    logger.warning(message)


def counted(elements: Sequence[str]) -> str:
    """Return the first of some elements and the number of the others."""
    return f"{elements[0]}{f' and {len(elements) - 1} more' if len(elements) > 1 else ''}"
