"""Threads for kernels that share their work out by themselves.

A kernel call takes blocks of worlds from a common counter until none is left, so a helper may join at any time, or come
too late and find nothing: the caller never waits for a thread to wake up, only for blocks that are being worked on.
That is what makes two threads no slower than one at any size.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

__all__ = ["run_with_helpers"]

logger = logging.getLogger("ahac")

Work = Callable[[Any], None]


class _Pool:
    """Helpers that wait for work; they live as long as the process."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[tuple[Work, Any]] = SimpleQueue()
        self.size = 0

    def grow(self, size: int) -> None:
        while self.size < size:
            self.size += 1
            threading.Thread(target=self._serve, name=f"ahac helper {self.size}", daemon=True).start()

    def _serve(self) -> None:
        while True:
            work, task = self.calls.get()
            try:
                work(task)
            except Exception:
                # The caller does the work of a helper that fails; this one stays for the next call.
                logger.exception("a helper thread could not run a kernel")
            del work, task


_pool = _Pool()


def run_with_helpers(work: Work, task: Any, helpers: int) -> None:
    """Run `work(task)` here, and in up to `helpers` other threads; returns when the work is done.

    A helper keeps `task` alive until it has looked at it, also when that is after the work was done.
    """
    if helpers > 0:
        _pool.grow(helpers)
        # Invitations that nobody has followed yet are not doubled.
        for _ in range(helpers - _pool.calls.qsize()):
            _pool.calls.put((work, task))
    work(task)


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
