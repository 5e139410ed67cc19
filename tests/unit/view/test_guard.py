"""Access to the viewer by request headers; and bad clients, which must not print anything to the terminal."""

import contextlib
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ahac.core.errors import InputError
from ahac.view import viewer as viewer_module
from ahac.view.server import serving
from ahac.view.sources import TrajectorySource
from support.sample_scene import falling_ball

viser = pytest.importorskip("viser")
msgspec = pytest.importorskip("msgspec")

from websockets import exceptions  # noqa: E402
from websockets.sync import client, connection  # noqa: E402
from websockets.typing import Subprotocol  # noqa: E402

from ahac.view.guard import AllowedHosts, guarded  # noqa: E402

HOST = "127.0.0.1"
WAIT = 20.0
"""Timeout for an answer [s]; generous, for busy machines."""
PROTOCOL = f"viser-v{viser.__version__}"


def ask(port: int, *headers: str, upgrade: bool = False) -> int:
    """Return the status of a request with only these headers, for the page or as a websocket handshake."""
    lines = ["GET / HTTP/1.1", *headers]
    if upgrade:
        lines += [
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
            f"Sec-WebSocket-Protocol: {PROTOCOL}",
        ]
    with socket.create_connection((HOST, port), WAIT) as link:
        link.sendall("\r\n".join([*lines, "", ""]).encode())
        answer = link.recv(200)
    match = re.match(rb"HTTP/1\.1 (\d+) ", answer)
    assert match is not None, answer
    return int(match[1])


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Port of a viewer on the loopback interface."""
    with serving(HOST, None) as server:
        yield server.get_port()


ACCEPTED = [
    ["Host: 127.0.0.1:{port}"],
    ["Host: localhost:{port}"],
    ["Host: LOCALHOST.:{port}"],
    ["Host: [::1]:{port}"],
    ["Host: localhost"],
    ["Host: 127.0.0.1:{port}", "Origin: http://127.0.0.1:{port}"],
    ["Host: localhost:{port}", "Origin: http://localhost:{port}"],
    ["Host: localhost:9000", "Origin: http://localhost:9000"],  # ssh -L 9000:localhost:PORT
    ["Host: localhost", "Origin: http://localhost"],
    ["Host: localhost:443", "Origin: https://localhost"],
]
REFUSED = [
    [],
    ["Host: evil.example:{port}"],  # DNS rebinding, of the page
    ["Host: evil.example:{port}", "Origin: http://evil.example:{port}"],  # and of its script
    ["Host: localhost.evil.example:{port}"],
    ["Host: 203.0.113.7:{port}"],
    ["Host: user@localhost:{port}"],
    ["Host: localhost:{port}/x"],
    ["Host: localhost:{port}", "Host: evil.example"],
    ["Host: 127.0.0.1:{port}", "Origin: http://evil.example"],  # a page of another site
    ["Host: 127.0.0.1:{port}", "Origin: http://127.0.0.1:1"],  # another program's page on this machine
    ["Host: 127.0.0.1:{port}", "Origin: http://localhost:{port}"],
    ["Host: 127.0.0.1:{port}", "Origin: null"],  # a file, or a sandboxed frame
    ["Host: 127.0.0.1:{port}", "Origin: file://127.0.0.1:{port}"],
    ["Host: 127.0.0.1:{port}", "Origin: http://127.0.0.1:{port}", "Origin: http://evil.example"],
]


def filled(headers: list[str], port: int) -> list[str]:
    return [header.format(port=port) for header in headers]


@pytest.mark.parametrize("headers", ACCEPTED, ids=", ".join)
def test_the_viewers_own_page_is_accepted(headers: list[str], port: int) -> None:
    assert ask(port, *filled(headers, port)) == 200
    assert ask(port, *filled(headers, port), upgrade=True) == 101


@pytest.mark.parametrize("headers", REFUSED, ids=", ".join)
def test_other_hosts_and_origins_are_refused(headers: list[str], port: int) -> None:
    assert ask(port, *filled(headers, port)) == 403
    assert ask(port, *filled(headers, port), upgrade=True) == 403


def test_a_public_viewer_answers_to_addresses_and_machine_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Node7")
    monkeypatch.setattr(socket, "getfqdn", lambda: "node7.lab.example")
    for bound in ("0.0.0.0", "::", "192.168.1.5", "node7"):
        allowed = AllowedHosts(bound)
        for name in ("192.168.1.5", "[fe80::1]", "localhost", "node7", "NODE7.lab.example", "node7.local", "0.0.0.0"):
            assert allowed.refusal([f"{name}:8080"], [f"http://{name}:8080"]) is None
        for name in ("evil.example", "node7.evil.example", "localhost.evil.example"):
            assert allowed.refusal([f"{name}:8080"], []) is not None
        assert allowed.refusal(["192.168.1.5:8080"], ["http://evil.example"]) is not None


def test_a_viser_that_cannot_be_guarded_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unguarded:
        stopped = False

        def __init__(self, **_: object) -> None: ...

        def stop(self) -> None:
            Unguarded.stopped = True

    monkeypatch.setattr(viser, "ViserServer", Unguarded)
    message = r"does not let ahac check where requests come from.*pip install"
    with pytest.raises(InputError, match=message), serving(HOST, None):
        pytest.fail("it must not be used")
    assert Unguarded.stopped


def test_other_websocket_servers_are_left_alone() -> None:
    from websockets.asyncio.server import serve

    original = serve.__init__
    with guarded(HOST) as guard:
        assert serve.__init__ is not original
    assert serve.__init__ is original
    assert not guard.active


# ------------------------------------------------------------------------------------------------ what clients send

VIEWER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from support.sample_scene import falling_ball
from ahac.view.viewer import serve
from ahac.view.sources import TrajectorySource
say = lambda address: (sys.stdout.write(address + "\\n"), sys.stdout.flush())
serve(TrajectorySource(falling_ball()), open_browser=False, announce=say)
"""

GARBAGE = [
    b"",
    b"\x00",
    b"\r\n\r\n",
    b"hello\r\n\r\n",
    bytes(range(256)) * 40,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    b"GET / HTTP/1.1\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nSec-WebSocket-Version: x\r\nUpgrade: websocket\r\n\r\n",
]

CAMERA = {"wxyz": [1, 0, 0, 0], "position": [1, 2, 3], "fov": 0.7, "near": 0.1, "far": 9, "image_height": 9,
          "image_width": 9, "look_at": [0, 0, 0], "up_direction": [0, 0, 1]}  # fmt: skip
MESSAGES: list[object] = [
    None,
    3,
    [],
    {},
    {"type": None},
    {"type": "Nonsense"},
    {"type": "Message"},
    {"type": "GuiUpdateMessage"},
    {"type": "GuiUpdateMessage", "uuid": "x", "updates": {"value": 1}},
    {"type": "GuiUpdateMessage", "uuid": [1], "updates": {"value": 1}},
    {"type": "ViewerCameraMessage"},
    {"type": "ViewerCameraMessage", **CAMERA, "wxyz": "abcd"},
    {"type": "ViewerCameraMessage", **CAMERA, "position": [None] * 3},
    {"type": "SceneNodeClickMessage", "name": 5},
    {"type": "ShareUrlRequest"},
    {"type": "ShareUrlDisconnect"},
    {"type": "FileTransferPart", "source_component_uuid": "x", "transfer_uuid": "x", "part_index": -1, "content": b""},
]


def connected(address: str, name: str = PROTOCOL) -> client.ClientConnection:
    return client.connect(address.replace("http", "ws"), subprotocols=[Subprotocol(name)], open_timeout=WAIT)


def controls(link: connection.Connection) -> dict[str, str]:
    """Return labels and identifiers of the panel's controls, as sent to a new client."""
    import zstandard

    uuids: dict[str, str] = {}
    while "Speed" not in uuids:
        data = link.recv(timeout=WAIT)
        assert isinstance(data, bytes)
        size = int.from_bytes(data[8:16], "little")
        content = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(data[16 : 16 + size]))
        for message in content["messages"]:
            if message["type"].startswith("Gui") and "label" in message.get("props", {}):
                uuids[message["props"]["label"]] = message["uuid"]
    return uuids


def sent(address: str, *messages: bytes | str, name: str = PROTOCOL) -> None:
    """Connect, send, and disconnect; the viewer may close the connection at any time."""
    with contextlib.suppress(exceptions.WebSocketException, OSError), connected(address, name) as link:
        for message in messages:
            link.send(message)


def attack(address: str) -> None:
    """Do everything that a client should not do."""
    host, port = HOST, int(address.rsplit(":", 1)[1])
    for data in GARBAGE:
        with contextlib.suppress(OSError), socket.create_connection((host, port), WAIT) as link:
            link.sendall(data)
            link.shutdown(socket.SHUT_WR)
            link.recv(100)
    for message in ["text", b"", b"\xc1", b"\x91" * 5000, os.urandom(1000), *map(msgspec.msgpack.encode, MESSAGES)]:
        sent(address, message)
    for name in ("viser-v0.0.0", "other", "viser-v" + "9" * 300):
        sent(address, b"x", name=name)
    with connected(address) as link:
        widgets = controls(link)
        bad = [{"value": "Nonsense"}, {"value": None}, {"value": [1] * 9}, {"props": 3}, {"update_cb": 5}, {"_": 1}, 7]
        for uuid in widgets.values():
            for updates in bad:
                link.send(msgspec.msgpack.encode({"type": "GuiUpdateMessage", "uuid": uuid, "updates": updates}))
        link.send(msgspec.msgpack.encode({"type": "ViewerCameraMessage", **CAMERA}))
        for _ in range(3):
            link.recv(timeout=WAIT)  # it continues to draw


def test_bad_clients_print_nothing_and_do_not_end_the_viewer() -> None:
    command, tests = [sys.executable, "-c", VIEWER], Path(__file__).parents[2]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tests) as process,
        contextlib.ExitStack() as idle,
    ):
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            port = int(address.rsplit(":", 1)[1])
            for _ in range(20):  # connections without a request
                idle.enter_context(socket.create_connection((HOST, port), WAIT))
            attack(address)
            assert ask(port, f"Host: {HOST}:{port}") == 200
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=WAIT)
        finally:
            process.kill()
    assert process.returncode == 0
    assert err == ""
    assert "Traceback" not in out


def test_client_errors_are_logged_at_debug_level(port: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "ahac"), connected(f"http://{HOST}:{port}") as link:
        link.send(msgspec.msgpack.encode({"type": "ShareUrlRequest"}))
        link.send(b"\xc1")
        with contextlib.suppress(exceptions.ConnectionClosedError):
            while True:  # until both are handled, after which the viewer disconnects
                link.recv(timeout=WAIT)
    assert "the viewer ignores a message" in caplog.text
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


@pytest.mark.parametrize(
    "command",
    [
        ("speed", "Nonsense"),
        ("speed", None),
        ("choose", "../last"),
        ("button", "speed"),
        ("button", "choose"),
    ],
)
def test_values_that_the_panel_does_not_offer_are_ignored(command: tuple[str, object]) -> None:
    with serving(HOST, None) as server:
        viewer = viewer_module._Viewer(server, TrajectorySource(falling_ball()), 1)
        before = viewer._playback.speed
        viewer._execute(*command)
        assert viewer._playback.speed == before


def test_a_joint_that_the_panel_does_not_offer_is_not_drawn() -> None:
    with serving(HOST, None) as server:
        viewer = viewer_module._Viewer(server, TrajectorySource(falling_ball()), 1)
        joint = viewer._plots._joint
        assert joint is not None
        joint.value = "Nonsense"
        for _ in range(2):
            viewer._execute("step", None)
        viewer._draw()
