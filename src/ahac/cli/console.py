"""What the commands write to: log lines beside a live display, and pipes whose reader has left."""

from __future__ import annotations

import logging
import os
import sys

from ahac.core.text import printable

__all__ = ["BROKEN_PIPE_STATUS", "StderrHandler", "log_to_stderr", "silence_broken_pipes"]

BROKEN_PIPE_STATUS = 141
"""Exit status that a shell gives to a program which wrote to a pipe that nobody reads: 128 + SIGPIPE."""


class StderrHandler(logging.Handler):
    """Log lines on whatever sys.stderr is at that moment: a live display puts itself there, and draws below them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        try:
            sys.stderr.write(printable(self.format(record) + "\n", keep="\n"))
            sys.stderr.flush()
        except Exception:  # as all handlers of logging do: what is logged must not end what logs
            self.handleError(record)


def log_to_stderr() -> None:
    """Log lines go to the terminal; nothing changes where a program has set up its own logging."""
    logging.basicConfig(format="%(message)s", handlers=[StderrHandler()])


def silence_broken_pipes() -> None:
    """Nothing that is still to be written can be an error any more, also while Python ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
