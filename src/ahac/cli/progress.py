"""Progress bars."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TypeVar

__all__ = ["progress_bar"]

Item = TypeVar("Item")


def progress_bar(items: Sequence[Item], label: str) -> Iterable[Item]:
    """Iterate over the items, with a progress bar if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(file=sys.stderr)
    return track(items, description=label, console=console, disable=not console.is_terminal)
