"""The viser server: picks a free port, prints nothing, and shuts down completely."""

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

__all__ = ["check_viewer", "free_port", "serving", "show"]

FIRST_PORT, TRIES = 8080, 200


def check_viewer() -> None:
    """Raise an InputError if the packages of the viewer are not installed."""
    try:
        import viser  # noqa: F401

        import ahac.view.guard  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"the viewer needs viser ({error}): pip install 'ahac[view]'; a recording needs no viewer: "
            "--record FILE.html writes a page that plays in any browser"
        ) from error


@contextmanager
def serving(host: str, port: int | None) -> Iterator[viser.ViserServer]:
    """Run a viser server until the block exits; requests from pages of other web sites get status 403."""
    check_viewer()
    import viser

    from ahac.view.guard import guarded

    free = free_port(host, port)
    with _quiet(), guarded(host) as guard:
        server = viser.ViserServer(host=host, port=free, verbose=False)
    try:
        if not guard.active:
            raise InputError(
                f"viser {viser.__version__} does not let ahac check where requests come from, so any web page could "
                "reach the viewer; install a supported version: pip install 'viser==1.1.1'"
            )
        if port is not None and server.get_port() != port:
            raise _port_in_use(host, port)
        yield server
    finally:
        guard.close_connections()
        with _quiet():
            server.stop()


def free_port(host: str, port: int | None) -> int:
    """Return `port` if it is free; if it is None, the first free port from 8080."""
    if port is not None and not 0 < port < 65536:
        raise InputError(f"port must be from 1 to 65535, got {port}")
    for candidate in [port] if port is not None else range(FIRST_PORT, FIRST_PORT + TRIES):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((host, candidate))
                trial.listen()
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise InputError(
                        f"cannot serve at {host}:{candidate}: {error}; choose another host or port"
                    ) from error
            else:
                return candidate
    if port is not None:
        raise _port_in_use(host, port)
    raise InputError(f"no port from {FIRST_PORT} to {FIRST_PORT + TRIES - 1} is free on {host}; choose one with --port")


def show(address: str) -> None:
    """Open an address in the user's browser, if there is a display."""
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if screen or not sys.platform.startswith("linux"):
        webbrowser.open(address)


def _port_in_use(host: str, port: int) -> InputError:
    return InputError(f"port {port} of {host} is in use; choose another, or omit it to use a free one")


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress viser's messages, which go to rich's shared console."""
    import rich

    console = rich.get_console()
    before = console.quiet
    console.quiet = True
    try:
        yield
    finally:
        console.quiet = before
