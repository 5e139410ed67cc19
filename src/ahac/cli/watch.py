"""A viewer beside a run that trains: a process of its own, which is nice to it and ends with it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["lower_priority", "viewer_process"]

logger = logging.getLogger("ahac")

COMMAND = (sys.executable, "-m", "ahac.cli.watch")
"""What shows the run of a folder: `ahac play RUN --newest`, tied to this process."""
NICE = 10
"""By which the viewer stands back behind training while it starts; after that, `lower_priority`."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
GRACE = 5.0
"""Seconds that the viewer has to end."""


@contextmanager
def viewer_process(folder: Path) -> Iterator[None]:
    """The run of a folder is shown meanwhile; a viewer that fails costs a warning, and nothing else."""
    try:
        # In a group of its own: Ctrl-C in a terminal is for training, which ends the viewer.
        viewer = subprocess.Popen(
            [*COMMAND, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
            env={**os.environ, **ONE_THREAD},
        )
    except OSError as error:
        logger.warning("the viewer could not be started: %s; training goes on without", error)
        yield
        return
    over = threading.Event()
    relay = threading.Thread(target=_relay, args=(viewer, over), name="ahac viewer", daemon=True)
    relay.start()
    try:
        yield
    finally:
        over.set()
        _end(viewer)
        relay.join(GRACE)


def _relay(viewer: subprocess.Popen[bytes], over: threading.Event) -> None:
    """Pass on what the viewer says, above a live display; say so if it ends before training does."""
    assert viewer.stdout is not None  # asked for above
    with viewer.stdout:
        for line in viewer.stdout:
            if not over.is_set():
                sys.stderr.write(line.decode(errors="replace"))
    status = viewer.wait()
    if not over.is_set():
        logger.warning("the viewer has ended (exit status %d); training goes on without", status)


def _end(viewer: subprocess.Popen[bytes]) -> None:
    viewer.terminate()
    try:
        viewer.wait(GRACE)
    except subprocess.TimeoutExpired:
        viewer.kill()
        viewer.wait()
    if viewer.stdin is not None:
        viewer.stdin.close()


def exit_with_parent(pipe: int) -> None:
    """End this process when the other end of a pipe is closed, as it is when the process there ends in any way."""

    def wait() -> None:
        os.read(pipe, 1)
        os._exit(0)

    threading.Thread(target=wait, name="ahac tie", daemon=True).start()


def lower_priority() -> None:
    """Leave this thread only the time that no other program wants, where there is such a thing; else little of it."""
    if hasattr(os, "nice"):
        os.nice(19)  # the most there is
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):  # where that is forbidden, being nice must do
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _view() -> int:
    """What the viewer's process does."""
    exit_with_parent(0)
    if hasattr(os, "nice"):
        os.nice(NICE)
    from ahac.cli.main import main

    return main(["play", sys.argv[1], "--newest", "--worlds", "1"])


if __name__ == "__main__":
    sys.exit(_view())
