"""Access control for the live viewer: check requests before viser sees them, and log client errors quietly.

The viewer has no password, so pages of other web sites must not reach it through the user's browser:

- The name in the Host header must be one of the viewer's own. This rejects pages whose domain name resolves to this
  machine (DNS rebinding). Any port is accepted: `ssh -L 9000:localhost:8080` arrives as `localhost:9000`.
- The Origin header, if present, must name the same host and port as the Host header. Browsers send it with every
  websocket handshake. Clients other than browsers need not send it and are accepted without.

Requests that fail get status 403. Programs on this machine are not kept out: they can send any header.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from weakref import WeakSet

import msgspec
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request
from websockets.protocol import State

__all__ = ["AllowedHosts", "Guard", "guarded"]

logger = logging.getLogger("ahac")

AUTHORITY = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]]+)(:(?P<port>[0-9]{1,5}))?")
DEFAULT_PORTS = {"http": 80, "https": 443}

_patching = threading.Lock()


class AllowedHosts:
    """Host names that a viewer bound to `host` answers to.

    On the loopback interface these are localhost and loopback addresses. A viewer that other machines can reach also
    answers to any IP address, which DNS rebinding cannot exploit, and to the names of this machine.
    """

    def __init__(self, host: str) -> None:
        bound = host.strip("[]").lower()
        self._names = {"localhost", bound}
        self._public = bound != "localhost" and not _is_loopback(bound)
        if self._public:
            names = {socket.gethostname().lower(), socket.getfqdn().lower()}
            short = {name.partition(".")[0] for name in names}
            self._names |= names | short | {f"{name}.local" for name in short}

    def refusal(self, hosts: list[str], origins: list[str]) -> str | None:
        """Return why a request with these Host and Origin headers is refused, or None if it is accepted."""
        if len(hosts) != 1 or len(origins) > 1:
            return "expected one Host header and at most one Origin header"
        host = AUTHORITY.fullmatch(hosts[0].strip())
        if host is None or not self._is_allowed(_name(host)):
            return "this viewer does not answer to the name in the Host header; open the address that `ahac` printed"
        for origin in origins:
            scheme, _, authority = origin.strip().partition("://")
            match = AUTHORITY.fullmatch(authority)
            port = DEFAULT_PORTS.get(scheme.lower())
            if match is None or port is None or _name_and_port(match, port) != _name_and_port(host, port):
                return "pages of other web sites may not use this viewer"
        return None

    def _is_allowed(self, name: str) -> bool:
        return name in self._names or (_is_address(name) if self._public else _is_loopback(name))


class Guard:
    """Checks the requests and messages of one server; see `guarded`."""

    def __init__(self, host: str) -> None:
        self._allowed = AllowedHosts(host)
        self._connections: WeakSet[_GuardedConnection] = WeakSet()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def active(self) -> bool:
        """Whether a server uses this guard; False if this version of viser builds its server differently."""
        return self._loop is not None

    def settings(self, original: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments for `serve` that replace viser's; must be called in the server's event loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_log_task_error)
        hook = _checked(self._allowed, original.get("process_request"))
        return {**original, "process_request": hook, "create_connection": self._connect, "logger": _quiet_logger()}

    def close_connections(self) -> None:
        """Close connections without a request yet, such as those that browsers open in advance.

        Otherwise the server would wait ten seconds for them when it stops.
        """
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._abort_unfinished)

    def _connect(self, *args: Any, **settings: Any) -> _GuardedConnection:  # noqa: ANN401  websockets' signature
        connection = _GuardedConnection(*args, **settings)
        self._connections.add(connection)
        return connection

    def _abort_unfinished(self) -> None:
        for connection in list(self._connections):
            if connection.state is State.CONNECTING:
                connection.transport.abort()


@contextmanager
def guarded(host: str) -> Iterator[Guard]:
    """Guard the server that viser starts inside this block; the guard stays active after the block exits.

    viser has no hook for requests, but it builds its server with `websockets.asyncio.server.serve`, which does. Inside
    the block, its constructor is patched to pass the guard's arguments, only in threads started inside the block.
    """
    guard = Guard(host)
    existing_threads = set(threading.enumerate())
    original = serve.__init__

    def construct(self: serve, *args: Any, **settings: Any) -> None:  # noqa: ANN401  viser's arguments
        unrelated = threading.current_thread() in existing_threads
        original(self, *args, **(settings if unrelated else guard.settings(settings)))

    with _patching:
        serve.__init__ = construct
        try:
            yield guard
        finally:
            serve.__init__ = original


Hook = Callable[[ServerConnection, Request], Any]


def _checked(allowed: AllowedHosts, then: Hook | None) -> Hook:
    """Return a hook that answers 403 to refused requests and passes others to viser's hook, which serves the client."""

    def process_request(connection: ServerConnection, request: Request) -> Any:  # noqa: ANN401  viser's signature
        headers = request.headers
        refusal = allowed.refusal(headers.get_all("Host"), headers.get_all("Origin"))
        if refusal is not None:
            return connection.respond(HTTPStatus.FORBIDDEN, f"403 Forbidden: {refusal}\n")
        return None if then is None else then(connection, request)

    return process_request


class _GuardedConnection(ServerConnection):
    """A connection that filters messages before viser handles them."""

    async def recv(self, *args: Any, **settings: Any) -> Any:  # noqa: ANN401  websockets' signature
        """Return the next message that the viewer supports."""
        while True:
            message = await super().recv(*args, **settings)
            if not _is_unsupported(message):
                return message
            logger.debug("the viewer ignores a message: %.200r", message)


def _is_unsupported(raw: bytes) -> bool:
    """Return whether a message requests something that no control of the viewer offers.

    These are requests for a public share URL, and GUI updates of anything but a control's value, which viser would
    write into its own state. A message that cannot be decoded raises, which closes the connection.
    """
    message = msgspec.msgpack.decode(raw)
    if not isinstance(message, dict):
        return False
    kind, updates = str(message.get("type")), message.get("updates")
    only_value = isinstance(updates, dict) and set(updates) == {"value"}
    return kind.startswith("ShareUrl") or (kind == "GuiUpdateMessage" and not only_value)


class _DebugHandler(logging.Handler):
    """Logs connection errors at debug level; a client's mistakes do not belong in the user's terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record at debug level."""
        logger.debug("viewer: %s", record.getMessage(), exc_info=record.exc_info)


def _quiet_logger() -> logging.Logger:
    """Return a separate logger for one server."""
    quiet = logging.Logger("ahac.view", logging.WARNING)
    quiet.addHandler(_DebugHandler())
    return quiet


def _log_task_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log at debug level instead of printing asyncio's traceback; tasks fail on messages with invalid content."""
    logger.debug("viewer: %s", context.get("message"), exc_info=context.get("exception"))


def _name(match: re.Match[str]) -> str:
    return match["name"].strip("[]").rstrip(".").lower()


def _name_and_port(match: re.Match[str], port: int) -> tuple[str, int]:
    return _name(match), int(match["port"] or port)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return _is_address(name) and ipaddress.ip_address(name).is_loopback
