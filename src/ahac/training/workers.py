"""Processes that train runs, and the cores they share."""

from __future__ import annotations

import os
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ahac.training.config import RunConfig

__all__ = ["Worker", "ended", "launch", "pinned", "shares"]

GRACE = 30.0
"""Seconds that a process has to end after it was told to do so at once."""


@dataclass(eq=False)
class Worker:
    """A process that trains a run."""

    config: RunConfig
    cores: set[int]
    system: subprocess.Popen[bytes]
    since: float
    told: bool = False
    """To stop."""

    @property
    def seconds(self) -> float:
        """Since it was launched."""
        return time.monotonic() - self.since

    def over(self, stop: bool) -> bool:
        """Whether it has ended; it is told to stop once."""
        if stop and not self.told:
            self.told = True
            self.system.terminate()
        return self.system.poll() is not None


def launch(config: RunConfig, cores: set[int], command: Sequence[str], log: Path) -> Worker:
    """Start a command for a run; what it says goes to the end of the log."""
    with log.open("ab") as file:
        # In a group of its own: Ctrl-C in a terminal is for the one who started it, who tells it to stop, once.
        system = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, process_group=0)
    return Worker(config, cores, system, time.monotonic())


@contextmanager
def ended(running: list[Worker]) -> Iterator[None]:
    """None of these processes outlives what is done meanwhile, however that ends."""
    try:
        yield
    finally:
        for worker in running:
            worker.system.terminate()
        for worker in running:
            try:
                worker.system.wait(GRACE)
            except subprocess.TimeoutExpired:
                worker.system.kill()
                worker.system.wait()


@contextmanager
def pinned(cores: set[int]) -> Iterator[None]:
    """Be on these cores, with all processes that are started meanwhile; wherever it likes if there are none."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def shares(jobs: int) -> deque[set[int]]:
    """The cores of this process, divided; one each, and some shared, where there are too few."""
    if not hasattr(os, "sched_setaffinity"):  # macOS, Windows
        return deque(set() for _ in range(jobs))
    cores = sorted(os.sched_getaffinity(0))
    if jobs > len(cores):
        return deque({cores[k % len(cores)]} for k in range(jobs))
    return deque(set(cores[k * len(cores) // jobs : (k + 1) * len(cores) // jobs]) for k in range(jobs))
