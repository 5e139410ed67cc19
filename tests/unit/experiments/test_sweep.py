"""Sweeps start, skip, resume and stop runs on separate cores; the processes here only pretend to train."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ahac.algos.config import ShortHorizonConfig
from ahac.core.errors import InputError
from ahac.core.files import WriteError
from ahac.core.hardware import split_cores
from ahac.experiments import sweep_folders
from ahac.experiments.launchers import local
from ahac.experiments.run_files import read_run
from ahac.experiments.sweep import FolderError, Outcome, run_status, sweep
from ahac.training.checkpoint import Checkpoint
from ahac.training.config import RunConfig, config_to_file
from ahac.training.process import LOCK, exclusive_lock
from ahac.training.run import create_run
from support.small_runs import small_config

PRETEND = """
import json, os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
with (folder.parent / "order").open("a") as file:
    file.write(folder.name + " ")
if "bad" in folder.name:
    sys.exit("it went wrong\\n")
if "long" in folder.name:
    time.sleep(100)
(folder / "cores").write_text(json.dumps(sorted(os.sched_getaffinity(0))))
(folder / "metrics.csv").write_text("iteration,env_steps,seconds\\n12,100,1\\n")
found = {"iteration": 12, "mean": 3.5, "iqm": 3.0, "interval": [2.0, 4.0]}
(folder / "evaluation.json").write_text(json.dumps(found))
"""


@pytest.fixture(autouse=True)
def _pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_folders, "COMMAND", (sys.executable, "-c", PRETEND))


def configs(out: Path, *names: str) -> list[RunConfig]:
    return [small_config(out, name=name) for name in names]


def states(outcomes: list[Outcome]) -> dict[str, str]:
    return {outcome.name: outcome.state for outcome in outcomes}


def test_runs_are_created_trained_and_reported(tmp_path: Path) -> None:
    events: list[str] = []
    outcomes = sweep(configs(tmp_path, "a", "b"), on_event=events.append)
    assert states(outcomes) == {"a": "finished", "b": "finished"}
    assert (tmp_path / "order").read_text(encoding="utf-8") == "a b "
    assert events[0] == f"a started, log: {tmp_path / 'a.log'}"
    assert events[1].startswith("a finished: mean return 3.5, interquartile mean 3.0 [2.0, 4.0], ")
    assert events[-1].endswith("(2 of 2)")
    assert json.loads((tmp_path / "a" / "config.json").read_text(encoding="utf-8"))["name"] == "a"


def test_runs_resume_on_the_device_of_the_sweep(tmp_path: Path) -> None:
    begun = small_config(tmp_path, name="a", device="cpu")
    create_run(begun)
    moved = replace(begun, device="cuda")
    assert sweep_folders.resume_command(moved)[-3:] == [str(tmp_path / "a"), "--device", "cuda"]
    assert sweep_folders.resume_command(replace(begun, device="auto"))[-1] == str(tmp_path / "a")


def test_complete_runs_are_skipped_and_unfinished_ones_resumed(tmp_path: Path) -> None:
    a, b = configs(tmp_path, "a", "b")
    assert [run_status(a), run_status(b)] == ["new", "new"]
    sweep([a])
    create_run(b)
    assert [run_status(a), run_status(b)] == ["complete", "unfinished"]
    (tmp_path / "order").unlink()
    outcomes = sweep([a, b])
    assert states(outcomes) == {"a": "complete", "b": "finished"}
    assert outcomes[0].detail == "mean return 3.5, interquartile mean 3.0 [2.0, 4.0]"
    assert (tmp_path / "order").read_text(encoding="utf-8") == "b "
    assert not (tmp_path / "b-2").exists()


def test_a_run_without_its_evaluation_is_not_complete(tmp_path: Path) -> None:
    (config,) = configs(tmp_path, "a")
    sweep([config])
    (tmp_path / "a" / "evaluation.json").unlink()
    assert run_status(config) == "unfinished"


@pytest.mark.parametrize(("iteration", "status"), [(12, "complete"), (0, "unfinished")])
def test_a_run_without_metrics_is_complete_if_it_was_evaluated_at_its_end(
    iteration: int, status: str, tmp_path: Path
) -> None:
    (config,) = configs(tmp_path, "a")
    sweep([config])
    path = tmp_path / "a" / "evaluation.json"
    evaluation = {**json.loads(path.read_text(encoding="utf-8")), "iteration": iteration}
    path.write_text(json.dumps(evaluation), encoding="utf-8")
    table = tmp_path / "a" / "metrics.csv"
    table.write_text("iteration,env_steps,seconds\n0.5,10,1\n", encoding="utf-8")  # rows were lost
    assert run_status(config) == status
    table.unlink()
    assert run_status(config) == status


def test_a_length_in_environment_steps_counts(tmp_path: Path) -> None:
    short, long = (small_config(tmp_path / str(n), name="a", iterations=999, env_steps=n) for n in (100, 101))
    assert states(sweep([short])) == {"a": "finished"}
    assert states(sweep([long])) == {"a": "failed"}, "it ended well, and too early"


def test_a_failure_does_not_stop_the_others(tmp_path: Path) -> None:
    outcomes = sweep(configs(tmp_path, "bad", "good"))
    assert states(outcomes) == {"bad": "failed", "good": "finished"}
    assert str(outcomes[0]) == "bad failed: exit status 1, it went wrong, 2 attempts"
    assert "it went wrong" in outcomes[0].log.read_text(encoding="utf-8")


FLAKY = """
import pathlib, sys
tries = pathlib.Path(sys.argv[1]) / "tries"
tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
if len(tries.read_text()) < 3:
    sys.exit("a node was lost")
"""


@pytest.mark.parametrize(("retries", "state", "attempts"), [(0, "failed", 1), (1, "failed", 2), (2, "finished", 3)])
def test_a_failed_run_is_retried(
    retries: int, state: str, attempts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_folders, "COMMAND", (sys.executable, "-c", FLAKY + PRETEND))
    events: list[str] = []
    (outcome,) = sweep(configs(tmp_path, "a"), on_event=events.append, retries=retries)
    assert (outcome.state, outcome.attempts) == (state, attempts)
    assert (f", {attempts} attempts" in str(outcome)) == (attempts > 1)
    again = [line for line in events if "retry" in line]
    reason = "a failed: exit status 1, a node was lost"
    assert again == [f"{reason}; retry {k} of {retries}" for k in range(1, retries + 1)]
    assert sum("started" in line for line in events) == attempts


OTHER = """
import fcntl, pathlib, sys, time
folder, held = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
with (folder / ".lock").open("a+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    held.touch()
    while held.exists():
        time.sleep(0.02)
    exec(sys.argv[3])
"""
"""Another process that trains a run until its second argument is removed."""


ENOUGH = 200
"""Looks at the states of a sweep, several times per second, after which a test gives up."""


@pytest.fixture
def fast_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ahac.experiments.sweep.IN_USE_INTERVAL", 0.05)


@contextmanager
def in_other_process(config: RunConfig, held: Path, last_words: str = "") -> Iterator[None]:
    """Let another process train a run until `held` is removed, at the latest at the end of the block."""
    create_run(config)
    command = [sys.executable, "-c", OTHER, str(Path(config.out) / config.name), str(held), last_words]
    with subprocess.Popen(command) as other:
        try:
            while not held.exists():
                assert other.poll() is None
                time.sleep(0.02)
            yield
        finally:
            held.unlink(missing_ok=True)


@pytest.mark.usefixtures("fast_looks")
@pytest.mark.parametrize(("last_words", "state"), [("", "finished"), (PRETEND, "complete")])
def test_a_run_that_another_process_trains_is_left_to_it_until_it_ends(
    last_words: str, state: str, tmp_path: Path
) -> None:
    held = tmp_path / "held"
    a, b = configs(tmp_path / "runs", "a", "b")
    events: list[str] = []
    shown: list[str] = []

    def end_other(line: str) -> None:
        events.append(line)
        if line.startswith("b finished"):
            held.unlink()

    with in_other_process(a, held, last_words):
        outcomes = sweep([a, b], on_event=end_other, retries=0, on_progress=lambda states: shown.append(states["a"]))
    assert list(dict.fromkeys(shown)) == ["in use", *(["running"] if state == "finished" else []), state]
    assert states(outcomes) == {"a": state, "b": "finished"}
    assert outcomes[0].attempts == (1 if state == "finished" else 0)
    assert events[0] == "a is in use: another process trains it; the sweep waits for it"
    assert sum("in use" in line for line in events) == 1


@pytest.mark.usefixtures("fast_looks")
def test_runs_of_other_processes_are_followed_while_no_slot_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, proceed = tmp_path / "held", tmp_path / "proceed"
    wait = f"import pathlib, time\nwhile not pathlib.Path({str(proceed)!r}).exists():\n    time.sleep(0.02)\n"
    monkeypatch.setattr(sweep_folders, "COMMAND", (sys.executable, "-c", wait + PRETEND))
    a, b = configs(tmp_path / "runs", "a", "b")
    shown: list[tuple[str, str]] = []

    def end_one_by_one(states: Mapping[str, str]) -> None:
        shown.append((states["a"], states["b"]))
        if shown[-1] == ("running", "in use"):
            held.unlink(missing_ok=True)
        if shown[-1] == ("running", "waiting") or len(shown) > ENOUGH:
            proceed.touch()

    with in_other_process(b, held):
        sweep([a, b], retries=0, on_progress=end_one_by_one)
    assert list(dict.fromkeys(shown))[:2] == [("running", "in use"), ("running", "waiting")]


@pytest.mark.usefixtures("fast_looks")
def test_a_process_that_finds_its_run_in_use_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process can lock the folder after the sweep has looked, while its own process starts."""
    held = tmp_path / "held"
    (a,) = configs(tmp_path / "runs", "a")
    looks: list[bool] = []

    def too_early(config: RunConfig) -> bool:
        looks.append(True)
        return len(looks) > 1 and sweep_folders.is_in_use(config)

    def end_other(line: str) -> None:
        if "waits" in line:
            monkeypatch.setattr(sweep_folders, "COMMAND", (sys.executable, "-c", PRETEND))
            held.unlink()

    monkeypatch.setattr("ahac.experiments.sweep.is_in_use", too_early)
    monkeypatch.setattr(sweep_folders, "COMMAND", (sys.executable, "-c", "import sys; sys.exit(2)"))
    with in_other_process(a, held):
        (outcome,) = sweep([a], on_event=end_other, retries=0)
    assert (outcome.state, outcome.attempts) == ("finished", 1)


def test_a_run_that_another_process_completes_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_folders, "COMMAND", (sys.executable, "-c", PRETEND + "\nsys.exit(2)"))
    (outcome,) = sweep(configs(tmp_path, "a"), retries=0)
    assert (outcome.state, outcome.attempts) == ("complete", 0)


def test_a_folder_that_cannot_be_locked_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = configs(tmp_path, "bad", "good")
    create_run(bad)
    (tmp_path / "bad" / LOCK).touch()

    def read_only(folder: Path, timeout: float) -> AbstractContextManager[None]:
        if folder.name == "bad":
            raise WriteError(f"cannot write '{folder / LOCK}': Read-only file system")
        return exclusive_lock(folder, timeout)

    monkeypatch.setattr(sweep_folders, "exclusive_lock", read_only)
    assert states(sweep([bad, good], retries=0)) == {"bad": "failed", "good": "finished"}


def test_the_reason_of_a_failure_is_of_its_last_attempt_and_no_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = "print('60/250  7680 steps  1 s', flush=True); sys.exit(2)"
    code = f"import pathlib, sys\nmark = pathlib.Path(sys.argv[1], 'mark')\nif mark.exists(): {second}\n"
    monkeypatch.setattr(
        sweep_folders, "COMMAND", (sys.executable, "-c", code + "mark.touch(); sys.exit('it went wrong')")
    )
    events: list[str] = []
    (outcome,) = sweep(configs(tmp_path, "a"), on_event=events.append)
    assert "a failed: exit status 1, it went wrong; retry 1 of 1" in events
    assert outcome.detail == "exit status 2"


def test_a_setting_of_the_wrong_type_is_refused_before_anything_starts(tmp_path: Path) -> None:
    a, b = configs(tmp_path, "a", "b")
    wrong: Any = "no"
    with pytest.raises(InputError, match=r"run 'b': RunConfig\.deterministic must be of type bool, got 'no'"):
        sweep([a, replace(b, deterministic=wrong)])
    assert not (tmp_path / "a").exists()


def test_a_device_that_no_machine_has_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (a,) = configs(tmp_path, "a")
    with pytest.raises(InputError, match=r"run 'a': device must be auto, cpu, cuda or cuda:N, got 'gpu'"):
        sweep([replace(a, device="gpu")])
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(("content", "reason"), [("{}", "it lacks task"), ("", "remove it, and the settings in the")])
def test_a_run_with_damaged_settings_fails_alone_with_the_remedy(content: str, reason: str, tmp_path: Path) -> None:
    bad, good = configs(tmp_path, "b", "good")
    run = create_run(bad)
    run.save("last", Checkpoint({}, {"iteration": 3, "env_steps": 30}, config_to_file(run.config)))
    (run.folder / "config.json").write_text(content, encoding="utf-8")
    outcomes = sweep([bad, good])
    assert states(outcomes) == {"b": "failed", "good": "finished"}
    assert reason in outcomes[0].detail


@pytest.mark.usefixtures("fast_looks")
def test_a_sweep_that_only_waits_for_others_can_be_stopped(tmp_path: Path) -> None:
    held = tmp_path / "held"
    (a,) = configs(tmp_path / "runs", "a")
    with in_other_process(a, held):
        assert states(sweep([a], seconds=0.2)) == {"a": "waiting"}


def test_two_processes_that_create_a_folder_at_once_leave_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (a,) = configs(tmp_path, "a")
    honest = sweep_folders.run_status

    def late(config: RunConfig) -> str:
        status = honest(config)
        create_run(config)
        return status

    monkeypatch.setattr(sweep_folders, "run_status", late)
    sweep_folders.create_folder(a)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_states_are_reported_while_runs_train(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []
    sweep(configs(tmp_path, "a", "bad"), retries=0, on_progress=lambda states: seen.append(dict(states)))
    assert seen[0] == {"a": "running", "bad": "waiting"}
    assert seen[-1] == {"a": "finished", "bad": "failed"}


@pytest.mark.parametrize("others", [[10, 20], [10], []])
def test_a_damaged_last_checkpoint_is_reported_with_the_command_that_continues(
    others: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (config,) = configs(tmp_path, "a")
    run = create_run(config)
    for name in ("last", "best", *(f"iteration-{k:06d}" for k in others)):
        run.save(name, Checkpoint({}, {"iteration": 3, "env_steps": 30}, config_to_file(run.config)))
    for name in ("last", *(["iteration-000020"] if len(others) == 1 else []), *([] if others else ["best"])):
        path = run.path_of(name)
        path.write_bytes(path.read_bytes()[:50] if path.exists() else b"")
    monkeypatch.setattr(sweep_folders, "COMMAND", (sys.executable, "-c", "import sys; sys.exit(2)"))
    (outcome,) = sweep([config])
    assert (outcome.state, outcome.attempts) == ("failed", 1)
    assert "last.safetensors is damaged" in outcome.detail
    assert outcome.detail.endswith(
        f"; continue with `ahac resume {tmp_path / 'a'} --checkpoint iteration-0000{others[-1]}`"
        if others
        else "; no other checkpoint can be read: remove the folder to train the run again"
    )


def test_what_cannot_be_started_is_a_failure_like_others(tmp_path: Path) -> None:
    (tmp_path / "a.log").mkdir(parents=True)
    outcomes = sweep(configs(tmp_path, "a", "b"))
    assert states(outcomes) == {"a": "failed", "b": "finished"}
    assert "a.log" in outcomes[0].detail
    assert outcomes[0].attempts == 2


def test_a_run_that_could_not_be_started_at_first_is_retried(tmp_path: Path) -> None:
    def remove_obstacle(line: str) -> None:
        if "retry 1 of 1" in line:
            (tmp_path / "a.log").rmdir()

    (tmp_path / "a.log").mkdir(parents=True)
    (outcome,) = sweep(configs(tmp_path, "a"), on_event=remove_obstacle)
    assert (outcome.state, outcome.attempts) == ("finished", 2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_what_runs_and_starts_nothing_more(number: signal.Signals, tmp_path: Path) -> None:
    before = signal.getsignal(number)

    def once(line: str) -> None:
        if "started" in line:
            signal.raise_signal(number)

    outcomes = sweep(configs(tmp_path, "long", "next"), on_event=once)
    assert states(outcomes) == {"long": "stopped", "next": "waiting"}
    assert signal.getsignal(number) is before
    assert not (tmp_path / "next").exists()


def test_a_second_ctrl_c_ends_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[int] = []

    class Recorded(local._LocalJob):
        def __init__(self, *arguments: Any) -> None:  # noqa: ANN401 - as they are
            super().__init__(*arguments)
            launched.append(self.process.pid)

    def twice(line: str) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(local, "_LocalJob", Recorded)
    with pytest.raises(KeyboardInterrupt):
        sweep(configs(tmp_path, "long"), on_event=twice)
    with pytest.raises(ProcessLookupError):
        os.kill(launched[0], 0)


def test_it_stops_after_its_time(tmp_path: Path) -> None:
    assert states(sweep(configs(tmp_path, "long", "next"), seconds=0.2)) == {"long": "stopped", "next": "waiting"}
    assert states(sweep(configs(tmp_path, "next"), seconds=0.0)) == {"next": "waiting"}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_runs_share_the_cores_and_the_sweep_keeps_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = os.sched_getaffinity(0)
    sweep(configs(tmp_path, "a", "b"), jobs=2)
    a, b = (set(json.loads((tmp_path / name / "cores").read_text(encoding="utf-8"))) for name in "ab")
    assert a | b == mine
    assert not a & b or len(mine) == 1
    assert json.loads((tmp_path / "a" / "manifest.json").read_text(encoding="utf-8"))["cores"] == len(a)
    assert os.sched_getaffinity(0) == mine
    sweep(configs(tmp_path, "c"), jobs=5)
    assert set(json.loads((tmp_path / "c" / "cores").read_text(encoding="utf-8"))) == mine, "a single one has all"
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 4, 5})
    assert list(split_cores(2)) == [{3}, {4, 5}]
    assert list(split_cores(4)) == [{3}, {4}, {5}, {3}]


def test_a_folder_of_other_settings_is_refused_before_anything_starts(tmp_path: Path) -> None:
    config = small_config(tmp_path, name="b", seed=7)
    assert isinstance(config.algorithm, ShortHorizonConfig)
    algorithm = replace(config.algorithm, horizon=replace(config.algorithm.horizon, initial=9))
    create_run(replace(config, algorithm=algorithm, device="auto"))
    message = (
        r"b was created with different settings \(seed 7 instead of 0, algorithm\.horizon\.initial 9\.0 instead of "
        r"[\d.]+\).*choose another name"
    )
    with pytest.raises(InputError, match=message):
        sweep(configs(tmp_path, "a", "b"))
    assert not (tmp_path / "a").exists()


def test_all_folders_of_other_settings_are_named(tmp_path: Path) -> None:
    runs = configs(tmp_path, "a", "b", "c", "d")
    for config, changes in zip(runs, ({"seed": 7}, {"seed": 7}, {"num_envs": 9}, {}), strict=True):
        create_run(replace(config, **changes))
    message = (
        r"^3 of 4 runs were created with different settings: a, b \(seed 7 instead of 0\); c \(num_envs 9 instead of "
        r"\d+\); choose another --out folder, .* `ahac sweep \.\.\. --except PATTERN`$"
    )
    with pytest.raises(InputError, match=message):
        sweep(runs)
    assert states(sweep(runs[3:])) == {"d": "finished"}


@pytest.mark.parametrize("left", [[], ["manifest.json"], ["manifest.json", ".lock", ".config.77.tmp.json"]])
def test_a_folder_that_a_killed_start_left_is_used(left: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    for name in left:
        (folder / name).write_text("{", encoding="utf-8")
    (config,) = configs(tmp_path, "a")
    assert run_status(config) == "new"
    assert sorted(path.name for path in folder.iterdir()) == sorted(left), "looking changes nothing"
    assert states(sweep([config])) == {"a": "finished"}
    assert json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["seed"] == config.seed
    assert not (tmp_path / "a-2").exists()
    assert not list(folder.glob(".config.*"))


def holding(folder: Path, name: str, content: str) -> None:
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text(content, encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notes.txt", "mine", "bad is not a run: it has no config.json"),
        ("metrics.csv", "iteration\n1\n", "bad is not a run: it has no config.json"),
        ("checkpoints/last.safetensors", "x", "bad"),
        ("manifest.json/x", "", "bad is not a run"),
        ("config.json", "{", "config.json is damaged"),
        ("config.json", '{"task": 5}', "config.json"),
    ],
)
def test_a_bad_folder_fails_alone_and_stays_as_it_is(name: str, content: str, message: str, tmp_path: Path) -> None:
    holding(tmp_path / "bad", name, content)
    heard: list[str] = []
    bad, good = configs(tmp_path, "bad", "good")
    outcomes = sweep([bad, good], on_event=heard.append)
    assert states(outcomes) == {"bad": "failed", "good": "finished"}
    assert message in outcomes[0].detail
    assert heard[0] == str(outcomes[0])
    assert [
        path.relative_to(tmp_path / "bad").as_posix() for path in (tmp_path / "bad").rglob("*") if path.is_file()
    ] == [name]
    assert (tmp_path / "bad" / name).read_text(encoding="utf-8") == content
    with pytest.raises(FolderError, match=message):
        run_status(bad)


def test_a_file_or_a_dangling_link_in_place_of_a_folder_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    outcomes = sweep(configs(tmp_path, "file", "link", "good"))
    assert states(outcomes) == {"file": "failed", "link": "failed", "good": "finished"}
    assert "file is not a folder; move it away" in outcomes[0].detail
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("evaluation.json", "{}"),
        ("evaluation.json", '{"iteration": 12, "iqm": NaN}'),
        ("metrics.csv", "x\n1\n"),
    ],
)
def test_a_run_with_a_damaged_table_or_evaluation_is_resumed(name: str, content: str, tmp_path: Path) -> None:
    (config,) = configs(tmp_path, "a")
    sweep([config])
    (tmp_path / "a" / name).write_text(content, encoding="utf-8")
    assert run_status(config) == "unfinished"
    assert states(sweep([config])) == {"a": "finished"}


def test_an_unreadable_folder_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    honest = sweep_folders.is_leftover

    def looked(folder: Path) -> bool:
        if folder.name == "closed":
            raise PermissionError(13, "Permission denied", str(folder))
        return honest(folder)

    monkeypatch.setattr(sweep_folders, "is_leftover", looked)
    outcomes = sweep(configs(tmp_path, "closed", "good"))
    assert states(outcomes) == {"closed": "failed", "good": "finished"}
    assert "Permission denied" in outcomes[0].detail


def test_a_removed_log_does_not_end_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removing = PRETEND.replace("sys.exit(", "pathlib.Path(f'{folder}.log').unlink(); sys.exit(")
    monkeypatch.setattr(sweep_folders, "COMMAND", (sys.executable, "-c", removing))
    outcomes = sweep(configs(tmp_path, "bad", "good"))
    assert str(outcomes[0]) == "bad failed: exit status 1, no log, 2 attempts"
    assert outcomes[1].state == "finished"


def test_a_run_that_has_lost_its_settings_is_finished(tmp_path: Path) -> None:
    (config,) = configs(tmp_path, "a")
    run = create_run(config)
    run.save("last", Checkpoint({}, {"iteration": 3, "env_steps": 30}, config_to_file(run.config)))
    (run.folder / "config.json").unlink()
    assert run_status(config) == "unfinished"
    assert states(sweep([config])) == {"a": "finished"}
    assert run_status(config) == "complete"


def test_missing_settings_are_the_defaults(tmp_path: Path) -> None:
    config = small_config(tmp_path, name="a", algo="ahac", iterations=500)
    assert (config.seed, config.preset) == (0, "default")
    path = create_run(config).folder / "config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    for name in ("seed", "preset", "algo", "iterations"):
        path.write_text(json.dumps({key: x for key, x in content.items() if key != name}), encoding="utf-8")
        assert run_status(config) == "unfinished"
        assert read_run(path.parent).settings[name] == content[name]


def test_a_process_that_leaves_damaged_files_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaging = PRETEND.replace('"iqm": 3.0', '"iqm": "x"')
    monkeypatch.setattr(sweep_folders, "COMMAND", (sys.executable, "-c", damaging))
    (outcome,) = sweep(configs(tmp_path, "a"))
    assert outcome.state == "failed"
    assert "evaluation.json is damaged: iqm must be a finite number, got 'x'" in outcome.detail


def test_a_name_may_begin_with_a_dash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    echo = "import pathlib, sys; pathlib.Path('given').write_text(sys.argv[1])"
    monkeypatch.setattr(sweep_folders, "COMMAND", (sys.executable, "-c", echo))
    sweep(configs(Path(), "-x"))
    assert (tmp_path / "given").read_text(encoding="utf-8") == str(tmp_path / "-x")


def test_a_run_named_like_the_log_of_another_is_refused(tmp_path: Path) -> None:
    for names in (["a", "a.log"], ["a.log", "a"]):
        with pytest.raises(InputError, match=r"run 'a\.log' has the same name as the log of run 'a'; rename one"):
            sweep(configs(tmp_path, *names))
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_place_of_the_folder_of_all_runs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(InputError, match=r"runs is not a folder; expected a folder .*: change --out"):
        sweep(configs(tmp_path / "runs", "a"))


def test_names_must_be_distinct(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="more than one is named a"):
        sweep(configs(tmp_path, "a", "a"))
    with pytest.raises(InputError, match="every run in a sweep needs a name"):
        sweep(configs(tmp_path, ""))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "hoper"}, "run 'b': no task named 'hoper'"),
        ({"variant": "other"}, "variant"),
        ({"device": "tpu"}, "device must be"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_starts(
    changes: dict[str, str], message: str, tmp_path: Path
) -> None:
    first, second = configs(tmp_path, "a", "b")
    odd = RunConfig(**{**vars(second), **changes})
    with pytest.raises(InputError, match=message):
        sweep([first, odd])
    assert not (tmp_path / "a").exists()


def test_numbers_are_checked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="jobs must be a whole number of at least 1"):
        sweep(configs(tmp_path, "a"), jobs=0)
    with pytest.raises(InputError, match="seconds must be a finite number"):
        sweep(configs(tmp_path, "a"), seconds=-1.0)
