"""Helper threads for kernels that distribute their own work.

Each kernel call takes blocks of items from a shared counter until none is left, so a helper may join at any time, or
arrive too late and find no work. The caller never waits for a thread to wake up, only for blocks in progress; two
threads are therefore no slower than one at any problem size.
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
    """Daemon threads that wait for work until the process ends."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[tuple[Work, Any]] = SimpleQueue()
        self.size = 0

    def grow(self, size: int) -> None:
        while self.size < size:
            self.size += 1
            threading.Thread(target=self._serve, name=f"ahac helper {self.size}", daemon=True).start()

    def _serve(self) -> None:
        while True:
            work, args = self.calls.get()
            try:
                work(args)
            except Exception:
                # The caller processes the blocks of a failed helper; the helper stays available for the next call.
                logger.exception("a helper thread failed to run a kernel")
            del work, args


_pool = _Pool()


def run_with_helpers(work: Work, args: Any, helpers: int) -> None:
    """Run `work(args)` in this thread and in up to `helpers` others; return when all the work is done.

    A helper that starts late still reads `args`, so the queue keeps it alive even after this function returned.
    """
    if helpers > 0:
        _pool.grow(helpers)
        # Requests that no helper has taken yet also count.
        for _ in range(helpers - _pool.calls.qsize()):
            _pool.calls.put((work, args))
    work(args)


def _after_fork() -> None:
    """Replace the pool in the child, which has none of its parent's threads."""
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
