"""Trajectories of an evaluated policy."""

from pathlib import Path

import numpy as np
import pytest

from ahac.cli.main import main
from ahac.training.run import Run, start
from ahac.training.trainer import train
from ahac.view.trajectory import Trajectory
from small_runs import small_config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = start(small_config(tmp_path_factory.mktemp("runs"), iterations=2))
    train(made, display=False)
    return made


def test_a_trajectory_is_saved_beside_the_result(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / "one.npz", tmp_path / "two.npz"]
    for path in paths:
        assert main(["eval", str(run.folder), "--save-trajectory", str(path), "--seconds", "0.5"]) == 0
        told, where = capsys.readouterr().out.splitlines()
        assert told.startswith("4 episodes: mean")
        assert where == str(path)
    one, two = map(Trajectory.load, paths)
    assert len(one) == round(0.5 / run.env.spec.dt) + 1
    assert np.array_equal(one.frame(3).position, two.frame(3).position), "the same seed, the same episode"


@pytest.mark.parametrize(("options", "told"), [
    (["--save-trajectory", "a.avi"], "a trajectory is .html, .mp4, .gif, .npz by its name, got 'a.avi'"),
    (["--save-trajectory", "a.npz", "--seconds", "-1"], "seconds must be a finite number"),
])  # fmt: skip
def test_what_cannot_be_saved_is_refused_before_the_evaluation(
    options: list[str], told: str, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(Run, "evaluate")
    assert main(["eval", str(run.folder), *options]) == 2
    assert told in capsys.readouterr().err
