"""Bars for what takes long, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TypeVar

__all__ = ["progress_bar"]

Item = TypeVar("Item")


def progress_bar(items: Sequence[Item], label: str) -> Iterable[Item]:
    """The items, with a bar that shows how far it is; nothing is drawn where there is no terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(file=sys.stderr)
    return track(items, description=label, console=console, disable=not console.is_terminal)
