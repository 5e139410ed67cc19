"""Log lines above a live display, closed pipes, and streams without Unicode."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ahac.cli.main import main
from support.marks import keep

pty = pytest.importorskip("pty", reason="the system has no pseudo-terminals")

SHOW = """
import logging
from ahac.cli.console import log_to_stderr
from ahac.training.sinks import Display
log_to_stderr()
with Display(("iteration", 9)) as shown:
    shown.write({"iteration": 1, "env_steps": 64, "seconds": 1.0, "episode_return": 3.0})
    shown.live.refresh()
    logging.getLogger("ahac").warning("something happened")
    shown.write({"iteration": 2, "env_steps": 128, "seconds": 2.0, "episode_return": 4.0})
logging.getLogger("ahac").warning("it is over")
"""


def on_a_terminal(code: str) -> str:
    """Return what a program writes to a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    got = b""
    try:
        while chunk := os.read(ours, 65536):
            got += chunk
    except OSError:  # on Linux: the other end is closed
        pass
    finally:
        os.close(ours)
    assert process.wait(60) == 0, got
    return got.decode()


def test_log_lines_appear_above_the_live_display() -> None:
    shown = on_a_terminal(SHOW)
    before, after = shown.split("something happened\r\n")
    assert re.search(r"(\r\x1b\[2K(\x1b\[1A\x1b\[2K)*)$", before), "what was drawn is cleared first"
    assert after.startswith("environment steps"), "and drawn again below it"
    assert shown.endswith("it is over\r\n")


@pytest.mark.parametrize("arguments", keep(1, [["list", "tasks"], ["train", "--help"]]))
def test_closed_pipe_exits_quietly(arguments: list[str], tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    with open(theirs, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "ahac", *arguments], stdout=pipe, stderr=subprocess.PIPE, cwd=tmp_path, check=False
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_characters_that_the_terminal_lacks_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding="ascii"))
    with pytest.raises(SystemExit):
        main(["train", "hopper", "--help-all"])
    assert rb"\u03bb of the TD(\u03bb) value targets" in content.getvalue()
