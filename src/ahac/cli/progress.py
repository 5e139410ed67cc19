"""Progress bars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["progress_bar", "progress_of"]

Item = TypeVar("Item")


def progress_bar(items: Sequence[Item], label: str) -> Iterable[Item]:
    """Iterate over the items, with a progress bar if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(file=sys.stderr)
    return track(items, description=label, console=console, disable=not console.is_terminal)


@contextmanager
def progress_of(label: str) -> Iterator[Callable[[float], None]]:
    """Show a progress bar, or one line if stderr is no terminal; yield a function that sets the fraction done."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        sys.stderr.write(f"{label}\n")
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(label, total=1.0)
        yield lambda fraction: progress.update(task, completed=fraction)
