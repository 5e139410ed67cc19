"""Trajectories of an evaluated policy."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ahac.cli.main import main
from ahac.core.config import to_dict
from ahac.core.files import write_json
from ahac.training.checkpoint import load_checkpoint, save_checkpoint
from ahac.training.run import Run, create_run
from ahac.training.trainer import train
from ahac.view.trajectory import Trajectory
from support.small_runs import small_config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = create_run(small_config(tmp_path_factory.mktemp("runs"), iterations=2))
    train(run, display=False)
    return run


def test_eval_saves_a_trajectory(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / "one.npz", tmp_path / "two.npz"]
    for path in paths:
        assert main(["eval", str(run.folder), "--save-trajectory", str(path), "--seconds", "0.5"]) == 0
        message, where = capsys.readouterr().out.splitlines()
        assert message.startswith("4 episodes: mean")
        assert where == str(path)
    one, two = map(Trajectory.load, paths)
    assert len(one) == round(0.5 / run.env.spec.dt) + 1
    assert np.array_equal(one.frame(3).position, two.frame(3).position), "the same seed, the same episode"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--save-trajectory", "a.avi"], "a trajectory must be a .html, .mp4, .gif, .npz file, got 'a.avi'"),
        (["--save-trajectory", "a.npz", "--seconds", "-1"], "seconds must be a finite number"),
        (["--save-trajectory", "none/a.npz"], "cannot write 'none/a.npz': there is no folder 'none'; create it first"),
    ],
)
def test_invalid_trajectory_options_are_rejected_before_evaluation(
    options: list[str], message: str, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(Run, "evaluate")
    assert main(["eval", str(run.folder), *options]) == 2
    assert message in capsys.readouterr().err


def test_runs_trained_on_a_gpu_work_without_one(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    shutil.copytree(run.folder, folder)
    saved = load_checkpoint(folder / "checkpoints" / "last.safetensors")
    # A CUDA generator's state is a seed and an offset.
    chance = {name: torch.arange(16, dtype=torch.uint8) for name in saved.tensors if name.endswith("generator")}
    assert len(chance) == 3
    save_checkpoint(folder / "checkpoints" / "last.safetensors", replace(saved, tensors={**saved.tensors, **chance}))
    write_json(folder / "config.json", to_dict(run.config) | {"device": "cuda"})
    assert main(["eval", str(folder)]) == 0
    assert main(["play", str(folder), "--record", str(tmp_path / "a.npz"), "--seconds", "0.2"]) == 0
    assert main(["resume", str(folder), "--iterations", "3", "--device", "cpu"]) == 0


def test_eval_rejects_unknown_devices(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(run.folder), "--device", "gpu"]) == 2
    assert "device must be auto, cpu, cuda or cuda:N, got 'gpu'" in capsys.readouterr().err
