"""Policies on physics engines: evaluation next to our own engine, and trajectories."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ahac.cli.main import main
from ahac.core.errors import InputError
from ahac.engines import EngineEnv
from ahac.engines.locomotion import Recording, measure
from ahac.training import engines
from ahac.training.engines import (
    EngineSettings,
    comparison_table,
    engine_env,
    evaluate_in_engine,
)
from ahac.training.pretrained import pretrained
from ahac.training.run import Run, create_run
from ahac.training.trainer import train
from ahac.training.viewing import EnvSource, dummy_policy, record_trajectory
from ahac.view.trajectory import Trajectory
from support.small_runs import small_config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = create_run(small_config(tmp_path_factory.mktemp("runs"), task="hopper", iterations=2))
    train(run, display=False)
    run.restore("last", with_env=False)
    return run


def test_our_own_engine_evaluates_as_the_run_does(run: Run) -> None:
    expected = run.evaluate(3)
    found = evaluate_in_engine(run, EngineSettings(engine="ahac"), episodes=3)
    assert found.evaluation.lengths.tolist() == expected.lengths.tolist()
    assert found.evaluation.returns == pytest.approx(expected.returns, rel=1e-3)  # single precision
    assert found.locomotion.linear_error is None


def test_engines_are_compared_in_columns(run: Run) -> None:
    results = [evaluate_in_engine(run, EngineSettings(engine=name), episodes=2) for name in ("ahac", "mujoco")]
    lines = comparison_table(results)
    assert lines[0].split() == ["ahac", "mujoco"]
    assert any(line.startswith("falls [fraction]") for line in lines)


def test_eval_in_mujoco(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(run.folder), "--engine", "mujoco", "--timestep", "0.004", "--threads", "1"]) == 0
    output = capsys.readouterr().out
    assert "return, mean" in output
    saved = json.loads((run.folder / "evaluation-mujoco.json").read_text(encoding="utf-8"))
    assert [each["engine"] for each in saved["engines"]] == ["ahac", "mujoco"]
    assert saved["engines"][1]["timestep"] == 0.004
    assert saved["checkpoint"] == "last"


def test_eval_says_what_it_is_doing(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(run.folder), "--engine", "mujoco", "--episodes", "2"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"evaluating 2 episodes in {engine}" for engine in ("ahac", "mujoco")]


def test_another_robot_file_has_results_of_its_own(run: Run) -> None:
    file = resources.files("ahac.envs") / "assets" / "hopper.xml"
    assert main(["eval", str(run.folder), "--engine", "mujoco"]) == 0
    own = (run.folder / "evaluation-mujoco.json").read_text(encoding="utf-8")
    assert main(["eval", str(run.folder), "--engine", "mujoco", "--model", str(file), "--timestep", "0.004"]) == 0
    saved = json.loads((run.folder / "evaluation-mujoco-hopper.json").read_text(encoding="utf-8"))
    assert saved["engines"][1]["model"] == str(file)
    assert (run.folder / "evaluation-mujoco.json").read_text(encoding="utf-8") == own


def test_play_records_mujoco(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "motion.npz"
    assert main(["play", str(run.folder), "--engine", "mujoco", "--record", str(path), "--seconds", "0.2"]) == 0
    trajectory = Trajectory.load(path)
    assert len(trajectory) == 13
    assert "stiffness" not in trajectory.channels


def test_a_view_of_mujoco_can_be_pushed(run: Run) -> None:
    env = engine_env(run.task, EngineSettings(), 1, 0, torch.device("cpu"))
    assert isinstance(env, EngineEnv)
    source = EnvSource(env, dummy_policy("zero", 3))
    assert len(record_trajectory(source, 0.1)) == 7
    source.push()
    assert source.step().position.shape[0] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--timestep", "0.001"], "--timestep is an option of --engine mujoco"),
        (["--engine", "mujoco", "--timestep", "0"], "timestep must be"),
        (["--engine", "bullet"], "bullet"),
        (["--command", "nan", "0", "0"], "--command: expected a finite number, got 'nan'"),
        (["--engine", "mujoco", "--model", "absent.xml"], "no file 'absent.xml'"),
    ],
)
def test_wrong_options_are_explained(
    options: list[str], message: str, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(run.folder), "--episodes", "1", *options]) == 2
    assert message in capsys.readouterr().err


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="known: ahac, mujoco"):
        EngineSettings(engine="bullet")
    with pytest.raises(InputError, match="settings of the engine 'mujoco'"):
        EngineSettings(engine="ahac", timestep=0.001)


@pytest.mark.parametrize("engine", ["ahac", "mujoco"])
def test_a_constant_command_is_followed_in_every_episode(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recordings: list[Recording] = []
    monkeypatch.setattr(engines, "measure", lambda recording: (recordings.append(recording), measure(recording))[1])
    run, command = pretrained("go1", device="cpu"), (0.5, -0.2, 0.4)
    found = evaluate_in_engine(run, EngineSettings(engine=engine), command=command, episodes=2)
    (recording,) = recordings
    assert np.abs(recording.signals["command"] - np.array(command, dtype=np.float32)).max() == 0.0
    walked = recording.signals["velocity"][50:].mean(axis=(0, 1))
    assert walked == pytest.approx(command, abs=0.15), "forward, left, yaw rate"
    assert found.locomotion.step_frequency == pytest.approx(2.0, abs=0.3), "the frequency of the gait clock [Hz]"


def test_commands_outside_the_ranges_of_training_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["go1", "--pretrained", "--command", "2", "0", "0"]
    motion = tmp_path / "evaluated.npz"
    assert main(["eval", *arguments, "--episodes", "1", "--save-trajectory", str(motion), "--seconds", "0.1"]) == 0
    assert "1 episode, command: 2 m/s forward, 0 m/s left, 0 rad/s\n" in capsys.readouterr().out
    assert len(Trajectory.load(motion)) == 6
    assert "lin_vel_x = 2, in training within [-0.5, 1]: the policy may not follow it" in caplog.text
    caplog.clear()
    assert main(["play", *arguments, "--seconds", "0.1", "--record", str(tmp_path / "steered.npz")]) == 0
    assert "lin_vel_x = 2, in training" in caplog.text


def test_recorded_motions_follow_the_command(tmp_path: Path) -> None:
    walked: dict[tuple[str, float], float] = {}
    for command in (["eval", "--episodes", "1", "--save-trajectory"], ["play", "--record"]):
        for speed in (-0.4, 0.8):
            file = tmp_path / f"{command[0]}{speed}.npz"
            arguments = [*command, str(file), "--seconds", "2", "--command", str(speed), "0", "0"]
            assert main([arguments[0], "go1", "--pretrained", *arguments[1:]]) == 0
            base = Trajectory.load(file).position[:, 0, 1]  # body 0 is the world
            walked[command[0], speed] = float(np.linalg.norm(base[-1, :2] - base[0, :2]))
    assert walked == pytest.approx({(name, v): 2.0 * abs(v) for name, v in walked}, abs=0.35)


@pytest.mark.parametrize("command", [(0.5, 0.0), "abcd"])
def test_a_command_must_be_three_numbers(command: object, run: Run) -> None:
    wrong: Any = command
    with pytest.raises(InputError, match="command must be three numbers, forward, left and yaw rate, got"):
        evaluate_in_engine(run, command=wrong, episodes=1)


def test_an_evaluation_with_a_command_is_not_saved(tmp_path: Path) -> None:
    run = create_run(small_config(tmp_path, task="go1", iterations=1, eval_episodes=1))
    train(run, display=False)
    assert main(["eval", str(run.folder), "--command", "0.5", "0", "0"]) == 0
    assert not list(run.folder.glob("evaluation*"))
    assert main(["eval", str(run.folder)]) == 0
    assert [path.name for path in run.folder.glob("evaluation*")] == ["evaluation.json"]


def test_a_task_without_commands_refuses_one(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("eval", "play"):
        assert main([command, str(run.folder), "--command", "1", "0", "0"]) == 2
        assert "hopper follows no velocity commands" in capsys.readouterr().err
