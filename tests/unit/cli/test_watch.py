"""The viewer of `ahac train --watch`: it shows the run, ends with training and cannot harm it."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ahac.cli import watch
from ahac.cli.main import main
from ahac.cli.watch import viewer_process
from ahac.training.run import open_run

PRETEND = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1], "viewer").write_text(f"{os.getpid()} {os.environ['OMP_NUM_THREADS']} {os.getpgrp()}")
print("look at http://localhost:8080", flush=True)
time.sleep(100)
"""
SMALL = ["--num-envs", "4", "--iterations", "2", "--eval-episodes", "3", "--device", "cpu",
         "--algorithm.actor.hidden", "8", "8"]  # fmt: skip


def pretend(monkeypatch: pytest.MonkeyPatch, code: str = PRETEND) -> None:
    monkeypatch.setattr(watch, "COMMAND", (sys.executable, "-c", code))


def until(path: Path) -> str:
    """Wait until a file has content, and return it."""
    deadline = time.monotonic() + 30.0
    while not path.exists() or not path.read_text(encoding="utf-8"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, ValueError])
def test_viewer_ends_with_training(
    error: type[BaseException] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch)

    def shown() -> int:
        with viewer_process(tmp_path):
            pid, threads, group = until(tmp_path / "viewer").split()
            assert (threads, group) == ("1", pid), "Ctrl-C in the terminal is not for it"
            if error is not None:
                raise error
            return int(pid)

    if error is None:
        pid = shown()
    else:
        with pytest.raises(error):
            shown()
        pid = int((tmp_path / "viewer").read_text(encoding="utf-8").split()[0])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_viewer_output_is_forwarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch)
    with viewer_process(tmp_path):
        until(tmp_path / "viewer")
        time.sleep(0.3)
    assert capsys.readouterr().err == "look at http://localhost:8080\n"


@pytest.mark.parametrize("command", [(sys.executable, "-c", "raise SystemExit(3)"), ("/no/such/program",)])
def test_failing_viewer_is_one_warning(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watch, "COMMAND", command)
    with viewer_process(tmp_path):
        deadline = time.monotonic() + 30.0
        while not caplog.messages and time.monotonic() < deadline:
            time.sleep(0.01)
    (message,) = caplog.messages
    assert message.startswith("the viewer ")
    assert message.endswith("training continues without it")


def test_process_exits_with_its_parent() -> None:
    code = "import time; from ahac.cli.watch import exit_with_parent; exit_with_parent(0); time.sleep(100)"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    try:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0
    finally:
        process.kill()


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="Linux has it")
def test_viewer_gets_idle_time_only() -> None:
    code = "import os; from ahac.cli import watch; watch.lower_priority(); print(os.sched_getscheduler(0), os.nice(0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(os.SCHED_IDLE), "19"]


@pytest.mark.parametrize("place", [0, 1, 5])
def test_watch_is_not_a_setting_of_the_run(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = tmp_path / "seen"
    pretend(monkeypatch, f"import sys; open({str(seen)!r}, 'w').write(sys.argv[1]); sys.stdin.read()")
    monkeypatch.chdir(tmp_path)
    arguments = ["cartpole", *SMALL]
    assert main(["train", *arguments[:place], "--watch", *arguments[place:]]) == 0
    folder = capsys.readouterr().out.splitlines()[-1]
    assert until(seen) == folder
    assert open_run(folder).config.num_envs == 4


def test_train_help_mentions_watch(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--watch", "--help"])
    assert "--watch show the policy in the browser while it learns" in " ".join(capsys.readouterr().out.split())


def test_watch_fails_before_training_if_there_is_no_viewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "viser", None)
    assert main(["train", "cartpole", *SMALL, "--watch"]) == 2
    message = "ahac: --watch needs the viewer: pip install 'ahac[view]'; or omit --watch\n"
    assert capsys.readouterr().err == message
    assert not list(tmp_path.iterdir())


def test_viewer_takes_port_and_browser_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = tmp_path / "seen"
    pretend(monkeypatch, f"import sys; open({str(seen)!r}, 'w').write(' '.join(sys.argv[2:])); sys.stdin.read()")
    monkeypatch.chdir(tmp_path)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert main(["train", "cartpole", *SMALL, "--watch", "--port", str(port)]) == 2
        assert f"port {port} of 127.0.0.1 is in use" in capsys.readouterr().err
    assert main(["train", "--watch", "--port", str(port), "--no-browser", "cartpole", *SMALL]) == 0
    assert "the viewer is starting\n" in capsys.readouterr().err
    assert until(seen) == f"--trust --port {port} --no-browser"
    for option in (["--port", "8090"], ["--no-browser"]):
        assert main(["train", "cartpole", *SMALL, *option]) == 2
        assert "are options of the viewer; add --watch" in capsys.readouterr().err
