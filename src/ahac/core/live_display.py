"""Displays that are redrawn on a terminal, and outlive it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from io import StringIO
from types import TracebackType
from typing import Self

__all__ = ["LiveDisplay"]


class LiveDisplay(AbstractContextManager["LiveDisplay"]):
    """Display on stderr that is redrawn in place while it is open; on other streams than a terminal, `live` is None."""

    def __init__(self, refresh_per_second: float | None = None) -> None:
        """Redraw this often, or only when asked to."""
        from rich.console import Console
        from rich.live import Live

        self.console = Console(file=sys.stderr)
        self.live = (
            Live(
                console=self.console,
                auto_refresh=refresh_per_second is not None,
                refresh_per_second=refresh_per_second or 1.0,
            )
            if self.console.is_terminal
            else None
        )

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            with suppress(OSError):  # the terminal may be closed
                self.draw_last()
                self.live.__exit__(kind, error, trace)

    def draw_last(self) -> None:
        """Update what stays on the terminal; called before the display closes."""

    @contextmanager
    def drawing(self) -> Generator[None]:
        """Show nothing from then on if the terminal is closed in this block; the program continues."""
        try:
            yield
        except OSError:
            self.console.file = StringIO()
