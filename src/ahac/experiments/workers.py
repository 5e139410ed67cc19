"""Processes that train the runs of a sweep."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ahac.training.config import RunConfig

__all__ = ["Worker", "launch", "terminate_on_exit"]

GRACE = 30.0
"""Seconds that a process has to end after it was told to do so at once."""


@dataclass(eq=False)
class Worker:
    """A process that trains a run."""

    config: RunConfig
    cores: set[int]
    system: subprocess.Popen[bytes]
    since: float
    stop_sent: bool = False
    """To stop."""

    @property
    def seconds(self) -> float:
        """Since it was launched."""
        return time.monotonic() - self.since

    def poll(self, stop: bool) -> bool:
        """Whether it has ended; it is told to stop once."""
        if stop and not self.stop_sent:
            self.stop_sent = True
            self.system.terminate()
        return self.system.poll() is not None


def launch(config: RunConfig, cores: set[int], command: Sequence[str], log: Path) -> Worker:
    """Start a command for a run; what it says goes to the end of the log."""
    with log.open("ab") as file:
        # In a group of its own: Ctrl-C in a terminal is for the one who started it, who tells it to stop, once.
        system = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, process_group=0)
    return Worker(config, cores, system, time.monotonic())


@contextmanager
def terminate_on_exit(running: list[Worker]) -> Iterator[None]:
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
