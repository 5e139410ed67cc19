"""The viewer of `ahac train --watch`: a separate process with low priority that ends with training."""

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
"""Command that shows a run: `ahac play RUN --newest`, which ends with this process."""
NICE = 10
"""Niceness of the viewer while it starts; afterwards `lower_priority` applies."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
GRACE = 5.0
"""Seconds that the viewer has to exit before it is killed."""


@contextmanager
def viewer_process(folder: Path, port: int | None = None, open_browser: bool = True) -> Iterator[None]:
    """Show the run in this folder inside the block; if the viewer fails, only log a warning."""
    options = [] if port is None else ["--port", str(port)]
    options += [] if open_browser else ["--no-browser"]
    try:
        # In a separate process group: Ctrl-C in the terminal goes to training, which then ends the viewer.
        viewer = subprocess.Popen(
            [*COMMAND, str(folder), "--trust", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
            env={**os.environ, **ONE_THREAD},
        )
    except OSError as error:
        logger.warning("the viewer could not be started: %s; training continues without it", error)
        yield
        return
    done = threading.Event()
    relay = threading.Thread(target=_relay, args=(viewer, done), name="ahac viewer", daemon=True)
    relay.start()
    try:
        yield
    finally:
        done.set()
        _stop(viewer)
        relay.join(GRACE)


def _relay(viewer: subprocess.Popen[bytes], done: threading.Event) -> None:
    """Forward the viewer's output to stderr, above a live display; warn if it exits before training does."""
    assert viewer.stdout is not None  # stdout=PIPE above
    with viewer.stdout:
        for line in viewer.stdout:
            if not done.is_set():
                sys.stderr.write(line.decode(errors="replace"))
    status = viewer.wait()
    if not done.is_set():
        logger.warning("the viewer exited with status %d; training continues without it", status)


def _stop(viewer: subprocess.Popen[bytes]) -> None:
    viewer.terminate()
    try:
        viewer.wait(GRACE)
    except subprocess.TimeoutExpired:
        viewer.kill()
        viewer.wait()
    if viewer.stdin is not None:
        viewer.stdin.close()


def exit_with_parent(pipe: int) -> None:
    """Exit when the other end of a pipe closes, which happens however the process there ends."""

    def wait() -> None:
        os.read(pipe, 1)
        os._exit(0)

    threading.Thread(target=wait, name="ahac parent watch", daemon=True).start()


def lower_priority() -> None:
    """Give this thread only idle CPU time, where the system supports that; otherwise the lowest priority."""
    if hasattr(os, "nice"):
        os.nice(19)  # the lowest priority
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):  # not permitted; the lowest priority must do
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _view() -> int:
    """Run the viewer process."""
    exit_with_parent(0)
    if hasattr(os, "nice"):
        os.nice(NICE)
    from ahac.cli.main import main

    return main(["play", *sys.argv[1:], "--newest", "--worlds", "1"])


if __name__ == "__main__":
    sys.exit(_view())
