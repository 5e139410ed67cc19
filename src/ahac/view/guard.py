"""Who may talk to the viewer: requests are checked before viser sees them, and bad clients leave no traceback.

The viewer has no password, so a page of another site must not reach it through the user's browser:

- The name in the Host header must be one of the viewer's own. A page that makes its own domain name resolve to this
  machine (DNS rebinding) is refused. Any port is fine: `ssh -L 9000:localhost:8080` arrives as `localhost:9000`.
- The Origin header, where there is one, must name the same host and port as the Host header. Browsers send it with
  every websocket handshake. Programs that are no browser need not send one, and are let in without.

Whoever fails gets status 403. Programs on this machine are not kept out: they can send any header they like.
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
    """The names under which a viewer that is bound to `host` may be addressed.

    For one on the loopback interface these are localhost and loopback addresses. One that other machines can reach may
    also be addressed by any IP address, which DNS rebinding cannot make use of, and by the names of this machine.
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
        """Why a request with these Host and Origin headers is refused; None where it is let in."""
        if len(hosts) != 1 or len(origins) > 1:
            return "the viewer wants one Host header and at most one Origin header"
        host = AUTHORITY.fullmatch(hosts[0].strip())
        if host is None or not self._known(_name(host)):
            return "this viewer is not known by the name in the Host header; open the address that `ahac` printed"
        for origin in origins:
            scheme, _, place = origin.strip().partition("://")
            match, port = AUTHORITY.fullmatch(place), DEFAULT_PORTS.get(scheme.lower())
            if match is None or port is None or _place(match, port) != _place(host, port):
                return "pages of other sites may not use this viewer"
        return None

    def _known(self, name: str) -> bool:
        return name in self._names or (_is_address(name) if self._public else _is_loopback(name))


class Guard:
    """What `guarded` puts in front of a server."""

    def __init__(self, host: str) -> None:
        self._allowed = AllowedHosts(host)
        self._connections: WeakSet[_GuardedConnection] = WeakSet()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def in_force(self) -> bool:
        """Whether there is a server that asks this guard; not so if a version of viser builds it differently."""
        return self._loop is not None

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments for `serve` in place of those that viser gave; called where the server runs."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_log_task_error)
        hook = _checked(self._allowed, given.get("process_request"))
        return {**given, "process_request": hook, "create_connection": self._connected, "logger": _quiet_logger()}

    def close_connections(self) -> None:
        """Close connections that have not asked for anything yet, such as browsers open ahead of time.

        The server would wait ten seconds for them before it ends.
        """
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._abort_unfinished)

    def _connected(self, *args: Any, **settings: Any) -> _GuardedConnection:  # noqa: ANN401  as websockets has it
        connection = _GuardedConnection(*args, **settings)
        self._connections.add(connection)
        return connection

    def _abort_unfinished(self) -> None:
        for connection in list(self._connections):
            if connection.state is State.CONNECTING:
                connection.transport.abort()


@contextmanager
def guarded(host: str) -> Iterator[Guard]:
    """Guard the server that viser starts inside this block; the guard stays in place when the block ends.

    viser offers no hook for requests, but it builds its server with `websockets.asyncio.server.serve`, whose documented
    arguments do what is needed. Inside the block its constructor gets them, in threads that were started there.
    """
    guard = Guard(host)
    older = set(threading.enumerate())
    original = serve.__init__

    def construct(self: serve, *args: Any, **settings: Any) -> None:  # noqa: ANN401  whatever viser passes on
        other = threading.current_thread() in older
        original(self, *args, **(settings if other else guard.settings(settings)))

    with _patching:
        serve.__init__ = construct
        try:
            yield guard
        finally:
            serve.__init__ = original


Hook = Callable[[ServerConnection, Request], Any]


def _checked(allowed: AllowedHosts, then: Hook | None) -> Hook:
    """Answer 403 to what is not allowed; the rest goes on to viser's own hook, which serves the page."""

    def process_request(connection: ServerConnection, request: Request) -> Any:  # noqa: ANN401  as of viser's hook
        headers = request.headers
        refusal = allowed.refusal(headers.get_all("Host"), headers.get_all("Origin"))
        if refusal is not None:
            return connection.respond(HTTPStatus.FORBIDDEN, f"403 Forbidden: {refusal}\n")
        return None if then is None else then(connection, request)

    return process_request


class _GuardedConnection(ServerConnection):
    """A client whose messages are looked at before viser acts on them."""

    async def recv(self, *args: Any, **settings: Any) -> Any:  # noqa: ANN401  as websockets has it
        """The next message that this viewer has a use for."""
        while True:
            message = await super().recv(*args, **settings)
            if not _unwanted(message):
                return message
            logger.debug("the viewer ignores a message: %.200r", message)


def _unwanted(raw: bytes) -> bool:
    """Whether a message asks for what no control of the viewer does.

    Such are requests for a public address of the viewer, and changes of a control in more than its value, which viser
    would write into its own state. What cannot be decoded is an error, and closes the connection.
    """
    message = msgspec.msgpack.decode(raw)
    if not isinstance(message, dict):
        return False
    kind, updates = str(message.get("type")), message.get("updates")
    only_value = isinstance(updates, dict) and set(updates) == {"value"}
    return kind.startswith("ShareUrl") or (kind == "GuiUpdateMessage" and not only_value)


class _DebugHandler(logging.Handler):
    """Errors of connections as debug messages: a client's mistakes are no news for the user's terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass it on."""
        logger.debug("viewer: %s", record.getMessage(), exc_info=record.exc_info)


def _quiet_logger() -> logging.Logger:
    """A logger of its own for one server."""
    quiet = logging.Logger("ahac.view", logging.WARNING)
    quiet.addHandler(_DebugHandler())
    return quiet


def _log_task_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """In place of asyncio's traceback: tasks fail where a message has odd content."""
    logger.debug("viewer: %s", context.get("message"), exc_info=context.get("exception"))


def _name(match: re.Match[str]) -> str:
    return match["name"].strip("[]").rstrip(".").lower()


def _place(match: re.Match[str], port: int) -> tuple[str, int]:
    return _name(match), int(match["port"] or port)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return _is_address(name) and ipaddress.ip_address(name).is_loopback
