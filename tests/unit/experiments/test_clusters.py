"""Runs on this machine, on a local Ray cluster and with submitit's local executor: killed workers resume exactly."""

import os
import re
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ahac.core.errors import InputError
from ahac.experiments.launchers.launcher import Launcher
from ahac.experiments.launchers.local import LocalLauncher
from ahac.experiments.launchers.ray import RayLauncher
from ahac.experiments.launchers.slurm import SlurmLauncher
from ahac.experiments.sweep import Outcome, sweep
from ahac.training.config import RunConfig
from support.small_runs import small_config, state, table

pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"),
]

MISSING = "needs Ray and submitit: pip install --group clusters"
ITERATIONS = 120
HALFWAY = 30


def config(out: Path, **changes: Any) -> RunConfig:  # noqa: ANN401 - settings
    return small_config(out, name="a", iterations=ITERATIONS, checkpoint_every=20, **changes)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, trained by a process of this machine."""
    out = tmp_path_factory.mktemp("uninterrupted")
    (outcome,) = sweep([config(out)])
    assert outcome.state == "finished", outcome
    return out / "a"


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Any]:
    """A Ray cluster of this machine with room for one run."""
    ray = pytest.importorskip("ray", reason=MISSING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))  # Ray would write one to the user's home folder
        ray.init(num_cpus=1, num_gpus=0, include_dashboard=False, log_to_driver=False, logging_level="error")
        yield ray
        ray.shutdown()


@pytest.fixture
def on_ray(ray_cluster: object) -> RayLauncher:
    return RayLauncher(num_cpus=1)


@pytest.fixture
def on_submitit() -> SlurmLauncher:
    pytest.importorskip("submitit", reason=MISSING)
    return SlurmLauncher(cluster="local")


def trainer(folder: Path) -> int:
    """Return the process that trains in a folder."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode().split("\0")
        except OSError:  # it has ended
            continue
        if "resume" in words and str(folder) in words:
            return int(path.parent.name)
    raise AssertionError(f"no process trains in {folder}")


def parent(pid: int) -> int:
    found = re.search(r"^PPid:\s*(\d+)$", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return int(found[1])


def disturbed(launcher: Launcher, out: Path, disturb: Callable[[int], None], retries: int = 1) -> Outcome:
    """Train the run, and disturb its process once, halfway."""
    done: list[int] = []

    def on_progress(states: Mapping[str, str]) -> None:
        path = out / "a" / "metrics.csv"
        if not done and path.exists() and path.read_bytes().count(b"\n") > HALFWAY:
            done.append(trainer(out / "a"))
            disturb(done[0])

    (outcome,) = sweep([config(out)], launcher=launcher, retries=retries, on_progress=on_progress)
    assert done, "the run was too fast to be disturbed"
    return outcome


def kill_worker(pid: int) -> None:
    os.kill(parent(pid), signal.SIGKILL)


def kill_both(pid: int) -> None:
    worker = parent(pid)
    os.kill(pid, signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)


@pytest.mark.parametrize("kill", [kill_worker, kill_both])
@pytest.mark.parametrize("launcher", ["on_ray", "on_submitit"])
def test_a_killed_worker_is_retried_and_ends_as_if_nothing_had_happened(
    launcher: str,
    kill: Callable[[int], None],
    uninterrupted: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    outcome = disturbed(request.getfixturevalue(launcher), tmp_path, kill)
    assert (outcome.state, outcome.attempts) == ("finished", 2), outcome
    assert table(tmp_path / "a") == table(uninterrupted)
    assert state(tmp_path / "a") == state(uninterrupted)


def test_a_killed_process_of_this_machine_is_retried_and_ends_as_if_nothing_had_happened(
    uninterrupted: Path, tmp_path: Path
) -> None:
    outcome = disturbed(LocalLauncher(1), tmp_path, lambda pid: os.kill(pid, signal.SIGKILL))
    assert (outcome.state, outcome.attempts) == ("finished", 2), outcome
    assert table(tmp_path / "a") == table(uninterrupted)
    assert state(tmp_path / "a") == state(uninterrupted)


def test_a_preempted_job_is_requeued_and_resumes(
    on_submitit: SlurmLauncher, uninterrupted: Path, tmp_path: Path
) -> None:
    outcome = disturbed(on_submitit, tmp_path, lambda pid: os.kill(parent(pid), signal.SIGUSR2), retries=0)
    assert (outcome.state, outcome.attempts) == ("finished", 1), outcome
    assert table(tmp_path / "a") == table(uninterrupted)
    log = (tmp_path / "a.log").read_text(encoding="utf-8")
    assert "stopping after this iteration, with a checkpoint" in log
    assert "continues after iteration" in log


@pytest.mark.parametrize("launcher", ["on_ray", "on_submitit"])
def test_a_sweep_that_stops_leaves_checkpoints(
    launcher: str, uninterrupted: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    used: Launcher = request.getfixturevalue(launcher)
    outcome = disturbed(used, tmp_path, lambda pid: signal.raise_signal(signal.SIGINT))
    assert outcome.state == "stopped", outcome
    rows = len(table(tmp_path / "a"))
    assert HALFWAY <= rows < ITERATIONS
    assert state(tmp_path / "a")["iteration"] == rows, "a checkpoint of the last iteration"
    (outcome,) = sweep([config(tmp_path)], launcher=used)
    assert outcome.state == "finished", outcome
    assert table(tmp_path / "a") == table(uninterrupted)


def test_tasks_that_wait_for_the_cluster_are_canceled(on_ray: RayLauncher, tmp_path: Path) -> None:
    first = config(tmp_path)
    second = replace(first, name="b")

    def stop(states: Mapping[str, str]) -> None:
        if (tmp_path / "a" / "metrics.csv").exists() and not stopped:
            stopped.append(True)
            signal.raise_signal(signal.SIGINT)

    stopped: list[bool] = []
    outcomes = sweep([first, second], launcher=on_ray, on_progress=stop)
    assert [outcome.state for outcome in outcomes] == ["stopped", "waiting"]
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("launcher", ["on_ray", "on_submitit"])
def test_a_run_that_fails_on_a_cluster_names_the_reason(
    launcher: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: Launcher = request.getfixturevalue(launcher)

    def spoil(waiting: int) -> int:
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "a" / "notes.txt").write_text("not a run", encoding="utf-8")
        return 1

    monkeypatch.setattr(used, "free_slots", spoil)
    (outcome,) = sweep([config(tmp_path)], launcher=used, retries=0)
    assert outcome.state == "failed"
    assert "a is not a run: it has no config.json" in outcome.detail


def test_runs_that_no_machine_can_train_are_refused(ray_cluster: object, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a run needs 2 CPUs and 0 GPUs, but the machines .* have at most 1 and 0"):
        sweep([config(tmp_path)], launcher=RayLauncher(num_cpus=2))


SLURM = {"srun": "", "sacct": "", "sbatch": "echo Submitted batch job 12\n"}


def test_jobs_are_an_array_with_the_options_of_sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit", reason=MISSING)
    (tmp_path / "bin").mkdir()
    for name, body in SLURM.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}", encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    launcher = SlurmLauncher({"partition": "gpu", "time": "24:00:00", "gres": "gpu:1"}, jobs=2)
    configs = [replace(config(tmp_path / "runs"), name=name) for name in "abc"]
    launcher.open(configs)
    assert launcher.free_slots(3) == 3
    assert len(launcher.start(configs)) == 3
    (script,) = (tmp_path / "runs" / ".slurm").rglob("*submission.sh")
    text = script.read_text(encoding="utf-8")
    for line in ("partition=gpu", "time=24:00:00", "gres=gpu:1", "requeue", "array=0-2%2", "signal=USR2@90"):
        assert f"#SBATCH --{line}\n" in text
    launcher.close()


def test_slurm_needs_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit", reason=MISSING)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="--launcher slurm submits jobs with sbatch; run it on a login node"):
        sweep([config(tmp_path)], launcher=SlurmLauncher())
