"""The live viewer without a browser: ports, errors, and a clean shutdown."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from ahac.core.errors import InputError
from ahac.view.server import free_port
from ahac.view.sources import TrajectorySource
from ahac.view.viewer import serve
from support.sample_scene import falling_ball

HOST = "127.0.0.1"
WAIT = 20.0
"""Timeout for a server to start or stop [s]; generous, for busy machines."""


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that is in use."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_free_port_is_found(taken: int) -> None:
    assert free_port(HOST, None) >= 8080
    with pytest.raises(InputError, match=f"port {taken} of {HOST} is in use; choose another"):
        free_port(HOST, taken)


@pytest.mark.parametrize("port", [0, -1, 70000])
def test_an_invalid_port_is_refused(port: int) -> None:
    with pytest.raises(InputError, match=f"from 1 to 65535, got {port}"):
        free_port(HOST, port)


def test_a_host_of_another_machine_is_refused() -> None:
    with pytest.raises(InputError, match=r"cannot serve at 203\.0\.113\.7"):
        free_port("203.0.113.7", 8080)


def test_without_viser_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(InputError, match=r"pip install 'ahac\[view\]'"):
        serve(TrajectorySource(falling_ball()), open_browser=False)


def test_no_worlds_are_refused() -> None:
    with pytest.raises(InputError, match="at least 1, got 0"):
        serve(TrajectorySource(falling_ball()), worlds=0, open_browser=False)


def test_a_taken_port_is_refused_and_leaves_nothing(taken: int) -> None:
    pytest.importorskip("viser")
    before = set(threading.enumerate())
    with pytest.raises(InputError, match="is in use"):
        serve(TrajectorySource(falling_ball()), port=taken, open_browser=False)
    assert set(threading.enumerate()) <= before


def test_it_serves_until_stopped_and_leaves_no_thread() -> None:
    pytest.importorskip("viser")
    before = set(threading.enumerate())
    stop = threading.Event()
    addresses = []

    def fetch(address: str) -> None:
        addresses.append(address)
        with urlopen(address, timeout=WAIT) as answer:
            assert b"<html" in answer.read(2000)
        stop.set()

    serve(TrajectorySource(falling_ball(worlds=2)), open_browser=False, announce=fetch, stop=stop)
    assert addresses[0].startswith(f"http://{HOST}:")
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT)
        assert not thread.is_alive()


def test_ctrl_c_ends_it_without_errors() -> None:
    pytest.importorskip("viser")
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from support.sample_scene import falling_ball\n"
        "from ahac.view.viewer import serve\nfrom ahac.view.sources import TrajectorySource\n"
        "import sys\nsay = lambda a: (sys.stdout.write(a + '\\n'), sys.stdout.flush())\n"
        "serve(TrajectorySource(falling_ball()), open_browser=False, announce=say)\n"
    )
    tests = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tests
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (0, "", "")
