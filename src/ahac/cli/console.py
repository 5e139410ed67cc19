"""Log lines above a live display, and output to closed pipes and to streams without Unicode."""

from __future__ import annotations

import io
import logging
import os
import sys

from ahac.core.text import printable

__all__ = ["BROKEN_PIPE_STATUS", "StderrHandler", "escape_unencodable", "log_to_stderr", "silence_broken_pipes"]

BROKEN_PIPE_STATUS = 141
"""Exit status of a program that wrote to a closed pipe, as shells report it: 128 + SIGPIPE."""


class StderrHandler(logging.Handler):
    """Writes to the current `sys.stderr`, which a live display replaces in order to draw below the log lines."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one log record."""
        try:
            sys.stderr.write(printable(self.format(record) + "\n", keep="\n"))
            sys.stderr.flush()
        except Exception:  # like all handlers of logging: a failure to log must not stop the program
            self.handleError(record)


def log_to_stderr() -> None:
    """Send log messages to stderr, unless the program has configured logging already."""
    logging.basicConfig(format="%(message)s", handlers=[StderrHandler()])


def escape_unencodable() -> None:
    r"""Write characters that the encoding of the terminal lacks as escapes (`\u03bb`), rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def silence_broken_pipes() -> None:
    """Redirect closed output streams to the null device, so that nothing fails while Python exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
