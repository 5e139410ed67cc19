"""A signal stops a run cleanly, with a checkpoint to resume from."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ahac.algos.algorithm import IterationResult
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.env import Env
from ahac.training import create
from ahac.training.run import create_run, open_run
from ahac.training.trainer import train
from support.small_runs import small_config, state, table

HEARD = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
"""Resets signal handling that nohup or a scheduler may have set for this process and its children."""
MAIN = "import sys; from ahac.cli.main import main; sys.exit(main(sys.argv[1:]))"


def signal_in(iteration: int, number: signal.Signals, patch: pytest.MonkeyPatch, times: int = 1) -> None:
    """Send the signal in the middle of that iteration."""
    honest, done = ShortHorizonActorCritic.iterate, [0]

    def iterate(self: ShortHorizonActorCritic, env: Env, progress: float) -> IterationResult:
        done[0] += 1
        if done[0] == iteration:
            for _ in range(times):
                signal.raise_signal(number)
        return honest(self, env, progress)

    patch.setattr(ShortHorizonActorCritic, "iterate", iterate)


@pytest.mark.usefixtures("hangup_is_heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_training_after_its_iteration(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = create_run(small_config(tmp_path))
    before = signal.getsignal(number)
    signal_in(3, number, monkeypatch)
    assert not train(run, display=False)
    assert "stopping after this iteration" in caplog.text
    assert state(run.folder)["iteration"] == 3.0
    assert len(table(run.folder)) == 3
    assert signal.getsignal(number) is before


def test_a_second_signal_stops_immediately_and_restores_the_handlers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(small_config(tmp_path, checkpoint_every=2))
    before = signal.getsignal(signal.SIGINT)
    signal_in(4, signal.SIGINT, monkeypatch, times=2)
    with pytest.raises(KeyboardInterrupt):
        train(run, display=False)
    assert signal.getsignal(signal.SIGINT) is before
    assert state(run.folder)["iteration"] == 3.0, "the last completed one"
    assert len(table(run.folder)) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_first_iteration_ends_stops_immediately(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(small_config(tmp_path))
    with monkeypatch.context() as patch:
        signal_in(1, number, patch)
        with pytest.raises(KeyboardInterrupt):
            train(run, display=False)
    assert state(run.folder)["iteration"] == 0.0
    assert table(run.folder) == []
    assert train(open_run(run.folder), display=False), "and the run can begin"


def test_a_hangup_that_was_ignored_stays_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under nohup."""
    run = create_run(small_config(tmp_path))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        signal_in(3, signal.SIGHUP, monkeypatch)
        assert train(run, display=False)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid, of util-linux")
def test_a_closed_terminal_ends_training_with_a_checkpoint(tmp_path: Path) -> None:
    """The terminal is closed while it shows progress, so that writes to it fail."""
    config = small_config(tmp_path, iterations=4000, checkpoint_every=4000)
    folder = create_run(config).folder
    terminal, shown = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", sys.executable, "-c", HEARD + MAIN, "resume", str(folder)],
        stdin=shown,
        stdout=shown,
        stderr=shown,
    )
    os.close(shown)
    try:
        read_until(terminal, folder, rows=2)
    finally:
        os.close(terminal)
    try:
        process.wait(timeout=60)
    finally:
        process.kill()
    assert 2 <= state(folder)["iteration"] < config.iterations
    assert state(folder)["iteration"] == len(table(folder))


def read_until(terminal: int, folder: Path, rows: int) -> None:
    """Read the output of a process until its table has the given number of rows."""
    deadline = time.monotonic() + 120.0
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.01)[0]:
            os.read(terminal, 4096)
        if (folder / "metrics.csv").exists() and len(table(folder)) >= rows:
            return
    raise AssertionError("no rows were written")


def test_a_signal_right_after_resuming_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = create_run(small_config(tmp_path))
    train(run, 3, display=False)
    before = state(run.folder), table(run.folder)
    signal_in(1, signal.SIGINT, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        train(open_run(run.folder), display=False)
    assert (state(run.folder), table(run.folder)) == before


def test_a_run_whose_start_is_interrupted_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(path: Path, content: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(create, "write_json", interrupt)
    with pytest.raises(KeyboardInterrupt):
        create_run(small_config(tmp_path / "runs"))
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.extended
def test_ctrl_c_while_kernels_are_compiled_ends_the_command_with_a_line(tmp_path: Path) -> None:
    """The kernel cache is empty and the robot is large."""
    command = ["train", "humanoid", "--device", "cpu", "--num-envs", "4", "--out", str(tmp_path / "runs")]
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "WARP_CACHE_PATH": str(tmp_path / "cache")},
    )
    try:
        assert process.stderr is not None
        folder = tmp_path / "runs" / "humanoid-ahac-s0"
        while "compiling the" not in (line := process.stderr.readline()):
            assert line, "it has ended"
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=200)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert [line for line in errors.splitlines() if line.startswith("ahac:")] == [
        f"ahac: interrupted; continue with `ahac resume {folder}`"
    ]
    assert out == ""
    assert open_run(folder).config.task == "humanoid"


def interrupted(command: list[str], folder: Path) -> tuple[int, str]:
    """Return status and stderr of a training process that gets Ctrl-C after its first iterations."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        metrics, deadline = folder / "metrics.csv", time.monotonic() + 120.0
        while process.poll() is None and time.monotonic() < deadline:
            if metrics.exists() and len(table(folder)) >= 2:
                process.send_signal(signal.SIGINT)
                break
            time.sleep(0.01)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, errors


@pytest.mark.extended
def test_ctrl_c_ends_the_command_with_a_checkpoint_and_resume_completes_it(tmp_path: Path) -> None:
    config = small_config(tmp_path, iterations=40, checkpoint_every=15)
    whole = create_run(replace(config, name="straight"))
    train(whole, display=False)
    folder = create_run(replace(config, name="stopped")).folder
    status, errors = interrupted(["resume", str(folder)], folder)
    assert status == 130, errors
    assert "Traceback" not in errors
    assert f"continue with `ahac resume {folder}`" in errors
    reached = len(table(folder))
    assert 2 <= reached < config.iterations
    assert state(folder)["iteration"] == reached
    assert not list((folder / "checkpoints").glob("*.tmp*"))
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "resume", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "4 episodes: mean" in done.stdout
    assert str(folder) in done.stdout
    assert state(folder) == state(whole.folder)
    assert table(folder) == table(whole.folder)
    assert open_run(folder).config == replace(config, name="stopped", integrator="explicit")
