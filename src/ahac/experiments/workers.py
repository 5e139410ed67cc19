"""Worker processes that train the runs of a sweep."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ahac.training.config import RunConfig

__all__ = ["Worker", "launch", "terminate_on_exit"]

TERMINATE_TIMEOUT = 30.0
"""Time between terminating and killing a process [s]."""


@dataclass(eq=False)
class Worker:
    """Process that trains a run."""

    config: RunConfig
    cores: set[int]
    process: subprocess.Popen[bytes]
    started: float
    """`time.monotonic` at launch [s]."""
    stop_sent: bool = False
    """Whether the process was asked to stop."""

    @property
    def seconds(self) -> float:
        """Time since launch [s]."""
        return time.monotonic() - self.started

    def poll(self, stop: bool) -> bool:
        """Return whether the process has ended. With `stop`, ask it to stop, but only once."""
        if stop and not self.stop_sent:
            self.stop_sent = True
            self.process.terminate()
        return self.process.poll() is not None


def launch(config: RunConfig, cores: set[int], command: Sequence[str], log: Path) -> Worker:
    """Start a command for a run and append its output to the log."""
    with log.open("ab") as file:
        # A separate process group: Ctrl-C reaches only the sweep, which asks each worker to stop exactly once.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, process_group=0)
    return Worker(config, cores, process, time.monotonic())


@contextmanager
def terminate_on_exit(running: list[Worker]) -> Iterator[None]:
    """Terminate all running workers when the block exits, even on an error."""
    try:
        yield
    finally:
        for worker in running:
            worker.process.terminate()
        for worker in running:
            try:
                worker.process.wait(TERMINATE_TIMEOUT)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
