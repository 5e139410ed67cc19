"""The launcher of this machine, MPS with a program in its place, and what workers of a cluster rely on."""

import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ahac.core.errors import InputError
from ahac.experiments import sweep_folders
from ahac.experiments.launchers import local, remote
from ahac.experiments.launchers.child import guarded
from ahac.experiments.launchers.launcher import describe, import_optional
from ahac.experiments.launchers.local import LocalLauncher, default_jobs
from ahac.experiments.launchers.mps import MpsDaemon
from ahac.experiments.launchers.ray import RayLauncher, _check_reachable
from ahac.experiments.launchers.remote import RemoteRun, claimed_cores
from ahac.experiments.sweep import sweep
from ahac.experiments.workers import Worker, exit_text
from ahac.training.api import configure
from ahac.training.process import exclusive_lock
from support.small_runs import small_config

PATIENCE = 30.0
"""Longest time that another process may take [s]."""
CONTROL = """#!/bin/sh
if [ "$1" = -d ]; then word=start; else read -r word; fi
echo "$word $CUDA_MPS_PIPE_DIRECTORY gpus=$CUDA_VISIBLE_DEVICES" >> "$MPS_CALLS"
[ "$word" != get_server_list ] || [ -n "$MPS_RUNS" ]
"""
"""In the place of nvidia-cuda-mps-control: notes what it is told."""
ENVIRONMENT = """
import os, pathlib, sys
path = pathlib.Path(sys.argv[1]) / "pipe"
path.write_text(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "none"))
"""


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What nvidia-cuda-mps-control was told, one call per line."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "nvidia-cuda-mps-control").write_text(CONTROL, encoding="utf-8")
    (folder / "nvidia-cuda-mps-control").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("MPS_CALLS", str(tmp_path / "calls"))
    for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "calls"


def words(calls: Path) -> list[str]:
    return [line.split()[0] for line in calls.read_text(encoding="utf-8").splitlines()] if calls.exists() else []


def test_mps_is_started_for_workers_and_stopped(calls: Path) -> None:
    daemon = MpsDaemon.start()
    assert daemon is not None
    assert daemon.folder.is_dir()
    assert daemon.env["CUDA_MPS_PIPE_DIRECTORY"] == str(daemon.folder)
    daemon.stop()
    assert words(calls) == ["get_server_list", "start", "quit"]
    asked, started, quitted = (line.split() for line in calls.read_text(encoding="utf-8").splitlines())
    assert asked == ["get_server_list", "gpus="], "the daemon that all processes use"
    assert started[1] == quitted[1] == str(daemon.folder)
    assert not daemon.folder.exists()


def test_the_daemon_alone_selects_among_all_gpus(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It numbers the GPUs that it sees from 0; a process that looks for number 2 among them would find none."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    daemon = MpsDaemon.start()
    assert daemon is not None
    daemon.stop()
    assert "CUDA_VISIBLE_DEVICES" not in daemon.env
    seen = [line.split()[-1] for line in calls.read_text(encoding="utf-8").splitlines()]
    assert seen == ["gpus=2", "gpus=2", "gpus="], "asked, started, stopped"


def test_mps_that_runs_already_is_left_alone(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPS_RUNS", "yes")
    assert MpsDaemon.start() is None
    assert words(calls) == ["get_server_list"]


def test_without_mps_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert MpsDaemon.start() is None


@pytest.mark.parametrize(
    ("jobs", "mps", "gpu", "expected"),
    [
        (2, True, True, ["get_server_list", "start", "quit"]),
        (2, False, True, []),
        (1, True, True, []),
        (2, True, False, []),
    ],
)
def test_runs_that_share_a_gpu_use_mps(
    jobs: int, mps: bool, gpu: bool, expected: list[str], calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "resolve_run_device", lambda device: "cuda" if gpu else "cpu")
    monkeypatch.setattr(sweep_folders, "COMMAND", (sys.executable, "-c", ENVIRONMENT))
    configs = [small_config(tmp_path / "runs", name=name) for name in "ab"]
    sweep(configs, launcher=LocalLauncher(jobs, mps=mps), retries=0)
    assert words(calls) == expected
    pipe = (tmp_path / "runs" / "a" / "pipe").read_text(encoding="utf-8")
    assert (pipe != "none") == bool(expected)


def test_the_default_number_of_jobs_fits_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = [small_config(tmp_path, name=str(k)) for k in range(20)]
    monkeypatch.setattr(local, "usable_cores", lambda: 6)
    assert default_jobs(configs) == 3
    assert default_jobs(configs[:2]) == 2
    monkeypatch.setattr(local, "usable_cores", lambda: 1)
    assert default_jobs(configs) == 1
    monkeypatch.setattr(local, "resolve_run_device", lambda device: "cuda")
    assert default_jobs(configs) == local.GPU_JOBS
    fasttd3, others = 4 * [configure("hopper", "fasttd3")], 4 * [configure("hopper", "sac")]
    assert default_jobs(fasttd3) == 3
    assert default_jobs(others) == 4
    assert default_jobs([*fasttd3, *others[:2]]) == 6


def test_missing_packages_say_how_to_install_them() -> None:
    with pytest.raises(
        InputError, match=r"the launcher 'ray' needs the package no_ray, .* `pip install 'ahac\[ray\]'`"
    ):
        import_optional("no_ray", "ray")


def test_the_packages_of_launchers_can_be_installed_for_their_tests() -> None:
    content = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    extras = content["project"]["optional-dependencies"]
    assert content["dependency-groups"]["clusters"] == [*extras["ray"], *extras["slurm"]]


def test_errors_of_other_packages_are_one_line() -> None:
    assert describe(RuntimeError("\nfirst\nsecond")) == "RuntimeError: first"
    assert describe(RuntimeError()) == "RuntimeError"


def test_exit_statuses_are_named() -> None:
    assert [exit_text(status) for status in (0, 1, -9, -999)] == [
        "", "exit status 1", "ended by SIGKILL", "exit status -999",
    ]  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_a_guarded_command_is_stopped_when_its_parent_is_killed(tmp_path: Path) -> None:
    ready, stopped = tmp_path / "ready", tmp_path / "stopped"
    body = (
        "import os, pathlib, signal, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path({str(stopped)!r}).touch(), os._exit(0)))\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "time.sleep(100)\n"
    )
    start = "import subprocess, sys; from ahac.experiments.launchers.child import guarded; "
    start += f"subprocess.run(guarded([sys.executable, '-c', {body!r}]))"
    parent = subprocess.Popen([sys.executable, "-c", start])
    wait_for(ready.exists)
    parent.kill()
    parent.wait()
    wait_for(stopped.exists)
    pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
    wait_for(lambda: not alive(pid))


def test_a_guarded_command_does_not_start_without_its_parent() -> None:
    command = guarded([sys.executable, "-c", "print('started')"])
    command[3] = "1"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (done.stdout, done.stderr) == ("", "the process that started this one has died\n")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system has no affinity")
def test_cores_are_claimed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 4, 5})
    with claimed_cores(2) as first:
        assert first == {3, 4}
        with claimed_cores(1) as second, claimed_cores(1) as third:
            assert (second, third) == ({5}, set())
    with claimed_cores(3) as all_of_them:
        assert all_of_them == {3, 4, 5}
    with claimed_cores(0) as none:
        assert none == set()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system has no affinity")
def test_too_few_cores_are_left_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 4, 5})
    with claimed_cores(2) as first, claimed_cores(2) as second, claimed_cores(1) as third:
        assert (first, second, third) == ({3, 4}, set(), {5})


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("head", "--address must be HOST:PORT, as in head:6379, .* got 'head'"),
        ("head:x", "--address must be HOST:PORT"),
        ("http://head:6379", "--address must be HOST:PORT"),
        ("head:99999", "--address must be HOST:PORT"),
        ("127.0.0.1:1", "cannot connect to the Ray cluster 127.0.0.1:1: .*; `ray status` on its head node shows"),
        ("ray://127.0.0.1:1", "cannot connect to the Ray cluster ray://127.0.0.1:1"),
    ],
)
def test_a_wrong_address_of_a_ray_cluster_is_refused_at_once(
    address: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ray:
        """In the place of the package, which waits for a minute."""

        @staticmethod
        def is_initialized() -> bool:
            return False

    monkeypatch.setitem(sys.modules, "ray", Ray)
    with pytest.raises(InputError, match=message):
        RayLauncher(address).open([small_config(tmp_path, name="a")])


def test_an_address_where_something_listens_is_left_to_ray() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        _check_reachable(f"127.0.0.1:{server.getsockname()[1]}")
    _check_reachable("auto")


REMOTE = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: (print("checkpoint"), sys.stdout.flush(), os._exit(130)))
assert signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN
(folder / "ready").touch()
if "long" in folder.name:
    time.sleep(100)
sys.exit(5 if "bad" in folder.name else 0)
"""


@pytest.fixture
def _pretended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sweep_folders, "COMMAND", (sys.executable, "-c", REMOTE))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_pretended")
@pytest.mark.parametrize(("name", "reason"), [("good", ""), ("bad", "exit status 5")])
def test_a_remote_run_creates_its_folder_and_returns_how_it_ended(name: str, reason: str, tmp_path: Path) -> None:
    assert RemoteRun(small_config(tmp_path / "runs", name=name), str(tmp_path))() == reason
    assert (tmp_path / "runs" / name / "config.json").is_file()


@pytest.mark.usefixtures("_pretended")
def test_an_interrupted_remote_run_stops_with_a_checkpoint(tmp_path: Path) -> None:
    run = RemoteRun(small_config(tmp_path, name="long"), str(tmp_path))

    def stop_when_ready(*_: object) -> None:
        if (tmp_path / "long" / "ready").exists():
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            raise KeyboardInterrupt

    handler = signal.signal(signal.SIGALRM, stop_when_ready)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler)
    assert (tmp_path / "long.log").read_text(encoding="utf-8") == "checkpoint\n"


@pytest.mark.usefixtures("_pretended")
def test_a_remote_run_waits_for_the_process_of_a_killed_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config(tmp_path, name="good")
    sweep_folders.create_folder(config)
    monkeypatch.setattr(remote, "LOCK_TIMEOUT", 0.3)
    with exclusive_lock(tmp_path / "good"):
        assert "good is in use: another process is training it" in RemoteRun(config, str(tmp_path))()
    code = "import time; from pathlib import Path; from ahac.training.process import exclusive_lock as lock\n"
    code += f"with lock(Path({str(tmp_path / 'good')!r})): Path('held').touch(); time.sleep(0.5)"
    with subprocess.Popen([sys.executable, "-c", code]):
        wait_for((tmp_path / "held").exists)
        monkeypatch.setattr(remote, "LOCK_TIMEOUT", PATIENCE)
        assert RemoteRun(config, str(tmp_path))() == ""


def test_a_worker_that_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ahac.experiments.workers.TERMINATE_TIMEOUT", 0.1)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); time.sleep(99)"
    worker = Worker([sys.executable, "-c", code], tmp_path / "log")
    wait_for(lambda: (tmp_path / "log").stat().st_size > 0)
    assert worker.poll() is None
    worker.stop()
    worker.close()
    assert worker.poll() == "ended by SIGKILL"


def test_remote_runs_keep_the_settings_but_not_the_process(tmp_path: Path) -> None:
    run = RemoteRun(small_config(tmp_path, name="a"), str(tmp_path), cores=2)
    run._worker = Worker([sys.executable, "-c", ""], tmp_path / "log")
    run._worker.close()
    state = run.__getstate__()
    assert state["_worker"] is None
    assert replace(run)._worker is None
    assert (state["config"], state["cores"]) == (run.config, 2)
