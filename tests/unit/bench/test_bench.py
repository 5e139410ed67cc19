"""`ahac bench`: each command at small size, with table and JSON, and errors before anything is measured."""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

from ahac.algos.off_policy import OffPolicy, OffPolicyConfig
from ahac.algos.recipes import recipe
from ahac.bench import tasks, training
from ahac.bench.rows import clean_gpu
from ahac.bench.training import iteration_times
from ahac.cli.main import main
from ahac.core.errors import InputError
from ahac.envs import make_task
from ahac.identification import read_recording

Bench = Callable[..., tuple[str, dict[str, Any]]]
Refused = Callable[..., str]
ROBOTS = ["robots", "inverted_double_pendulum", "--worlds", "2", "--threads", "1", "--seconds", "0.05"]
TASKS = ["tasks", "cartpole", "--worlds", "4", "--threads", "1", "--seconds", "0.05"]
TRAIN = ["train", "cartpole", "--algos", "shac", "--horizon", "4", "--iterations", "1"]


def strict(text: str) -> dict[str, Any]:
    """Parse JSON strictly: no NaN, no Infinity."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str]) -> Bench:
    """Return the printed tables, and the report in the last line."""

    def call(*arguments: str) -> tuple[str, dict[str, Any]]:
        assert main(["bench", *arguments]) == 0
        printed, _, last = capsys.readouterr().out.rstrip("\n").rpartition("\n")
        return printed, strict(last)

    return call


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refused:
    """Return the error message; fail if an environment was created before."""

    def measured(*_: object, **__: object) -> NoReturn:
        raise AssertionError("something was measured")

    monkeypatch.setattr(training, "make", measured)
    monkeypatch.setattr(tasks, "Rollouts", measured)

    def call(*arguments: str) -> str:
        assert main(["bench", *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        return err.splitlines()[-1]

    return call


def printed_row(printed: str) -> dict[str, str]:
    """Return the only row of the last table by column."""
    header, row = (re.split(r" {2,}", line.strip()) for line in printed.rstrip().splitlines()[-2:])
    return dict(zip(header, row, strict=True))


def test_robots_are_measured_next_to_mujoco_and_by_number_of_worlds(bench: Bench) -> None:
    printed, report = bench(*ROBOTS)
    beside, steps = report["tables"].values()
    assert list(beside[0]) == [
        "robot",
        "worlds",
        "forward [us]",
        "forward+backward [us]",
        "mj_step [us]",
        "contacts in mj_step",
        "mj_step / forward+backward",
    ]
    assert list(steps[0]) == [
        "robot",
        "device",
        "threads",
        "worlds",
        "forward [steps/s]",
        "forward+backward [steps/s]",
        "forward+backward [ms]",
        "speed-up",
        "kept [kB/world/step]",
    ]
    assert (len(beside), len(steps), steps[0]["worlds"], steps[0]["speed-up"]) == (1, 1, 2, 1.0)
    assert all(title in printed for title in report["tables"])
    assert printed_row(printed)["robot"] == "inverted_double_pendulum"


def test_missing_values_are_null_in_json_and_a_dash_in_the_table(bench: Bench) -> None:
    printed, report = bench(*TASKS)
    (rows,) = report["tables"].values()
    assert list(rows[0]) == [
        "task",
        "substeps",
        "device",
        "threads",
        "worlds",
        "forward [steps/s]",
        "forward+backward [steps/s]",
        "forward [ms]",
        "forward+backward [ms]",
        "over the bare simulator",
        "peak [MB]",
    ]
    assert rows[0]["peak [MB]"] is None
    assert rows[0]["over the bare simulator"] > 0
    assert printed_row(printed)["peak [MB]"] == "-"


def test_the_cost_of_memory_is_measured(bench: Bench) -> None:
    _, report = bench("memory", "cartpole", "--worlds", "4", "--seconds", "0")
    ((row,),) = report["tables"].values()
    assert (row["task"], row["worlds"], row["threads"]) == ("cartpole", 4, 1)
    assert row["ratio"] == pytest.approx(row["both with memory [ms]"] / row["forward+backward [ms]"])


ARM = """<mujoco model="arm"><worldbody><body name="base"><freejoint/><geom size=".1" mass="1"/>
  <body name="upper"><joint name="shoulder" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".03" mass="1"/>
    <body name="fore" pos="0 0 -.3"><joint name="elbow" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".03" mass="1"/></body></body></body></worldbody></mujoco>"""


def test_the_cost_of_parameters_is_measured_on_a_file_without_ground_and_actuators(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "arm.xml").write_text(ARM, encoding="utf-8")
    options = ["--servos", "20", "1", "--worlds", "4", "--threads", "1", "--seconds", "0"]
    _, report = bench("parameters", str(tmp_path / "arm.xml"), *options)
    ((row,),) = report["tables"].values()
    assert row["parameters"] == 8, "3 masses, 3 contact frictions, 2 gains"
    assert row["ratio"] == pytest.approx(row["with gradients [ms]"] / row["without [ms]"])


def test_identification_finds_the_parameters_behind_a_recording_of_mujoco(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "arm.xml").write_text(ARM, encoding="utf-8")
    options = ["--data", "mj_step", "--seconds", "4", "--folder", str(tmp_path)]
    printed, report = bench("identify", str(tmp_path / "arm.xml"), *options)
    ((row,),) = report["tables"].values()
    assert row["parameters"] == 9
    kinds = ("armature", "damping", "friction", "offset", "delay")
    assert max(row[f"{kind} [%]"] for kind in kinds) < 5.0, "4 s instead of 20 s, so within 5 % instead of 1 %"
    assert printed_row(printed)["data"] == "mj_step"
    assert read_recording(tmp_path / "mj_step.npz").q.shape == (2001, 2)


def test_training_times_are_written_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *TRAIN, "--worlds", "2", "4", "--json", str(tmp_path / "x.json")]) == 0
    report = strict((tmp_path / "x.json").read_text(encoding="utf-8"))
    (rows,) = report["tables"].values()
    assert list(rows[0]) == [
        "task",
        "algo",
        "worlds",
        "horizon",
        "epochs",
        "iteration ms",
        "rollout ms",
        "gradient ms",
        "critic ms",
        "rest ms",
        "learning ms",
        "steps/s",
        "peak MB",
    ]
    assert [(row["worlds"], row["horizon"]) for row in rows] == [(2, 4), (4, 4)]
    assert {"cpu", "cores", "gpu", "python", "torch", "warp-lang", "mujoco"} == set(report["machine"])
    assert "{" not in capsys.readouterr().out


STUDY = """
seeds = [3, 4]
settings = {num_envs = 2, algorithm.horizon = {rule = "fixed", initial = 4}}
[[runs]]
tasks = ["cartpole"]
algos = ["shac"]
settings = {iterations = 600000}
[[runs]]
tasks = ["cartpole"]
algos = ["ahac"]
settings = {env_steps = 7200000, algorithm.horizon = {rule = "growth", initial = 4, min = 4, max = 6}}
[[runs]]
tasks = ["hopper"]
algos = ["shac"]
"""


def test_runs_of_a_study_are_timed_once_for_all_seeds(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(STUDY, encoding="utf-8")
    given = ("--only", "cartpole-*", "--set", "num_envs=3", "--iterations", "1", "--device", "cpu")
    _, report = bench("study", str(tmp_path / "two.toml"), *given)
    (rows,) = report["tables"].values()
    assert [(row["group"], row["device"], row["worlds"], row["horizon"]) for row in rows] == [
        ("cartpole-shac", "cpu", 3, 4),
        ("cartpole-ahac", "cpu", 3, 4),
    ]
    for row in rows:  # 600000 iterations, and as many of 3 x 4 steps
        assert row["minutes"] == pytest.approx(10.0 * row["iteration ms"], rel=0.05)
    assert rows[0]["minutes, longest horizon"] is None
    assert rows[1]["minutes, longest horizon"] > 0.0


def test_every_setting_of_a_list_is_timed(bench: Bench, tmp_path: Path) -> None:
    lines = (
        "small cartpole --algo shac --num-envs 2 --seed 0\n"
        "again cartpole --algo shac --num-envs 2 --seed 1\n"
        "large cartpole --algo shac --num-envs 3\n"
    )
    (tmp_path / "list.txt").write_text(lines, encoding="utf-8")
    _, report = bench("study", str(tmp_path / "list.txt"), "--iterations", "1", "--device", "cpu")
    (rows,) = report["tables"].values()
    assert [(row["group"], row["worlds"]) for row in rows] == [("small", 2), ("large", 3)]


def test_runs_of_a_study_are_timed_on_their_own_devices(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def resolve(device: str) -> str:
        asked.append(device)
        return "cpu"

    monkeypatch.setattr("ahac.core.device.resolve_run_device", resolve)
    text = STUDY.replace("iterations = 600000", 'iterations = 600000, device = "cuda"')
    (tmp_path / "two.toml").write_text(text, encoding="utf-8")
    bench("study", str(tmp_path / "two.toml"), "--only", "cartpole-*", "--iterations", "1")
    assert asked == ["cuda", "auto"]


def test_warm_up_of_a_replay_buffer_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    updates = 0

    def update(self: OffPolicy) -> None:
        nonlocal updates
        updates += 1

    monkeypatch.setattr(OffPolicy, "_update", update)
    config = replace(recipe("cartpole", "sac", "default").algorithm, steps_per_env=2, learning_starts=100)
    assert isinstance(config, OffPolicyConfig)
    row = training.run_time(
        make_task("cartpole"), config, worlds=1, device="cpu", run_iterations=1, run_env_steps=None, iterations=3
    )
    assert updates == 2 * (training.WARM_UP + 3), "two steps of all worlds per iteration, after 50 without updates"
    assert row["horizon"] == 2


def test_number_of_worlds_defaults_to_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    class Made(Exception):
        """Stops the benchmark."""

    def make(task: str, *, num_envs: int, device: str) -> NoReturn:
        raise Made(task, num_envs, device)

    monkeypatch.setattr(training, "make", make)
    with pytest.raises(Made) as made:
        iteration_times("cartpole", "shac", "default", worlds=None, device="cpu")
    assert made.value.args == ("cartpole", training.recipe("cartpole", "shac", "default").num_envs, "cpu")
    with pytest.raises(InputError, match="worlds must be a whole number of at least 1, got 0"):
        iteration_times("cartpole", "shac", "default", worlds=0, device="cpu")


@pytest.mark.parametrize("kind", [ROBOTS[:2], TASKS[:2], TRAIN[:2]], ids=lambda kind: kind[0])
def test_numbers_of_worlds_are_checked_before_measuring(refused: Refused, kind: list[str]) -> None:
    assert "worlds must be a whole number of at least 1, got 0" in refused(*kind, "--worlds", "4", "0")
    assert "expected at least one argument" in refused(*kind, "--worlds")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "cartpole", "--iterations", "0"], "iterations must be a whole number of at least 1, got 0"),
        (["train", "cartpole", "--iterations", "-3"], "iterations must be a whole number of at least 1, got -3"),
        (["train", "cartpole", "--horizon", "0"], "horizon must be a whole number of at least 1, got 0"),
        (["train", "cartpole", "--algos", "ppo", "--horizon", "4"], "got one for ppo; remove it"),
        (["train", "cartpole", "--iterations", "few"], "--iterations: expected a whole number, got 'few'"),
        (["train", "cartpole", "--preset", "nope"], "nope"),
        (["tasks", "cartpole", "--threads", "1", "0"], "threads must be a whole number of at least 1, got 0"),
        (["tasks", "cartpole", "--seconds", "inf"], "seconds must be a finite number of at least 0, got inf"),
        (["study", "smoke", "--iterations", "0"], "iterations must be a whole number of at least 1, got 0"),
        (["study", "smoke", "--only", "ant-*"], "no run is named like 'ant-*'"),
        (["study", "nope"], "no such file and no study named 'nope'"),
        (["robots", "nope"], "no robot named 'nope'"),
        (["robots", "hopper", "--device", "nope"], "device such as 'cuda:0', got 'nope'"),
        (["robots", "hopper", "--device", "cuda:99"], "device 'cuda:99' is not available: "),
        (["nope"], "unknown command 'nope'; known: robots, tasks, parameters, memory, train"),
        (["--worlds", "4"], "unknown option --worlds"),
    ],
    ids=" ".join,
)
def test_invalid_arguments_are_rejected(refused: Refused, arguments: list[str], message: str) -> None:
    assert message in refused(*arguments)


def test_unknown_task_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("tasks", "train"):
        assert main(["bench", kind, "nope"]) == 2
        assert "nope" in capsys.readouterr().err.splitlines()[-1]


def test_unwritable_file_is_rejected_before_measuring(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (ROBOTS, TASKS, TRAIN):
        assert "there is no folder" in refused(*kind, "--json", str(tmp_path / "none" / "x.json"))
    assert "it is a folder; choose another name" in refused(*TASKS, "--json", str(tmp_path))
    assert "it is a folder; choose another name" in refused(*TASKS, "--json", "")
    # Simulated, since root may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    assert "permission denied; choose another folder" in refused(*TASKS, "--json", str(tmp_path / "x.json"))
    assert list(tmp_path.iterdir()) == []


def test_cpu_row_does_not_touch_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def touched(*_: object) -> NoReturn:
        raise AssertionError("CUDA was touched")

    for name in ("init", "empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, touched)
    with clean_gpu("cpu"):
        pass


def test_gpu_row_starts_with_empty_memory_on_its_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[object] = []

    @contextmanager
    def current(device: str) -> Iterator[None]:
        done.append(f"to {device}")
        yield
        done.append("back")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "device", current)
    monkeypatch.setattr(torch.cuda, "init", lambda: done.append("init"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("empty"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: done.append(f"reset {device}"))
    with clean_gpu("cuda:1"):
        done.append("row")
    assert done == ["init", "to cuda:1", "empty", "reset cuda:1", "row", "back"]
    with clean_gpu("cuda:2"):  # left to the simulator, which rejects it
        pass
    assert done[-1] == "back"


@pytest.mark.gpu
def test_row_does_not_count_memory_of_earlier_rows() -> None:
    many, few = (
        iteration_times("cartpole", "shac", "default", worlds=worlds, device="cuda", horizon=4, iterations=1)["peak MB"]
        for worlds in (131072, 4)
    )
    assert few < many / 2


@pytest.mark.gpu
def test_row_is_measured_on_its_device() -> None:
    last = torch.cuda.device_count() - 1
    before = torch.cuda.current_device()
    with clean_gpu(f"cuda:{last}"):
        assert torch.cuda.current_device() == last
    assert torch.cuda.current_device() == before
