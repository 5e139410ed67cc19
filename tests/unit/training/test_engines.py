"""Policies on physics engines: evaluation next to our own engine, and trajectories."""

import json
from importlib import resources
from pathlib import Path

import pytest
import torch

from ahac.cli.main import main
from ahac.core.errors import InputError
from ahac.engines import EngineEnv
from ahac.training.engines import (
    EngineSettings,
    comparison_table,
    engine_env,
    evaluate_in_engine,
)
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
