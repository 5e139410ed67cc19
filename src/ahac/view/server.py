"""viser's server on a port of this machine: found, quiet, and gone when it is no longer needed."""

from __future__ import annotations

import errno
import os
import socket
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ahac.core.errors import InputError

if TYPE_CHECKING:
    import viser

__all__ = ["free_port", "serving", "show"]

FIRST_PORT, TRIES = 8080, 200


@contextmanager
def serving(host: str, port: int | None) -> Iterator[viser.ViserServer]:
    """A server that ends with the block, its threads with it. Requests from other sites' pages are refused."""
    try:
        import viser

        from ahac.view.guard import guarded
    except ImportError as error:
        raise InputError(f"the viewer needs viser ({error}): pip install 'ahac[view]'") from error
    chosen = free_port(host, port)
    with _quiet(), guarded(host) as guard:
        server = viser.ViserServer(host=host, port=chosen, verbose=False)
    try:
        if not guard.in_force:
            raise InputError(
                f"viser {viser.__version__} does not let ahac check where requests come from, so that any web page "
                "could reach the viewer; install a version that does: pip install 'viser==1.1.1'"
            )
        if port is not None and server.get_port() != port:
            raise _port_in_use(host, port)
        yield server
    finally:
        guard.close_connections()
        with _quiet():
            server.stop()


def free_port(host: str, port: int | None) -> int:
    """The port asked for, if it is free; without one, the first that is free from 8080 upwards."""
    if port is not None and not 0 < port < 65536:
        raise InputError(f"a port is a number from 1 to 65535, got {port}")
    for candidate in [port] if port is not None else range(FIRST_PORT, FIRST_PORT + TRIES):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((host, candidate))
                trial.listen()
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise InputError(f"cannot serve at {host}:{candidate}: {error}; choose another place") from error
            else:
                return candidate
    if port is not None:
        raise _port_in_use(host, port)
    raise InputError(f"no port from {FIRST_PORT} to {FIRST_PORT + TRIES - 1} is free on {host}; name one with --port")


def show(address: str) -> None:
    """Open a page in the user's browser, where there is a screen for one."""
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if screen or not sys.platform.startswith("linux"):
        webbrowser.open(address)


def _port_in_use(host: str, port: int) -> InputError:
    return InputError(f"port {port} of {host} is in use; choose another, or none, and a free one is found")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without viser's own announcements, which go to rich's shared console."""
    import rich

    console = rich.get_console()
    before = console.quiet
    console.quiet = True
    try:
        yield
    finally:
        console.quiet = before
