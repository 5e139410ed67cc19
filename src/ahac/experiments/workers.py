"""Processes that train the runs of a sweep."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["Worker", "exit_text"]

TERMINATE_TIMEOUT = 30.0
"""Time between terminating and killing a process [s]."""


class Worker:
    """Process that trains a run.

    Args:
        command: Command line of the process.
        log: File to which its output is appended.
        env: Its environment variables; by default those of this process.
    """

    def __init__(self, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        with log.open("ab") as file:
            # A separate process group: Ctrl-C reaches only the sweep, which asks each worker to stop exactly once.
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env, process_group=0
            )

    def poll(self) -> str | None:
        """Return None while the process runs; then "" if it ended well, or its exit status."""
        status = self.process.poll()
        return None if status is None else exit_text(status)

    def stop(self) -> None:
        """Ask the process to stop after its iteration, with a checkpoint; asked twice, it stops immediately."""
        self.process.terminate()

    def close(self) -> None:
        """Wait for the process to end; kill it if it takes too long."""
        try:
            self.process.wait(TERMINATE_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def exit_text(status: int) -> str:
    """Return an exit status as a text for messages; "" for success. A negative one is the signal that ended it."""
    if status < 0 and -status in set(signal.Signals):
        return f"ended by {signal.Signals(-status).name}"
    return f"exit status {status}" if status else ""
