"""Run folders of earlier versions open, evaluate and resume."""

import json
import logging
import shutil
from pathlib import Path

import pytest
import torch

from ahac.cli.main import main
from ahac.experiments.compare import compare
from ahac.training.run import open_run
from ahac.training.trainer import train
from support.small_runs import state, table

FIXTURES = Path(__file__).parents[2] / "fixtures"
RUNS = sorted(path for version in FIXTURES.glob("runs-*") for path in version.iterdir())
CLOSE = 1e-3
"""Relative; another CPU rounds differently. Measured for all seven runs with lanes of 16, 32 and 64 bytes, with and
without -ffp-contract=fast, and with torch restricted to SSE: 1.2e-7 at most."""


@pytest.fixture(params=RUNS, ids=lambda path: f"{path.parent.name}-{path.name}")
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return shutil.copytree(request.param, tmp_path / request.param.name)


def test_every_algorithm_has_a_run_of_version_0_1_0() -> None:
    algos = {path.name for path in RUNS if path.parent.name == "runs-0.1.0"}
    assert algos == {"ahac", "ahac1", "shac", "bptt", "ppo", "sac", "svg"}


def test_it_opens_and_lists(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = open_run(folder).config
    assert (config.task, config.algo, config.iterations, config.num_envs) == ("cartpole", folder.name, 12, 4)
    assert main(["list", "runs", "--out", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "6/12" in shown
    assert compare([folder])[0].seeds == (0,)


def test_it_evaluates_to_what_it_was_worth(folder: Path) -> None:
    then = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    run = open_run(folder)
    run.restore("last", with_env=False)
    assert run.evaluate().mean == pytest.approx(then["mean"], rel=CLOSE)


@pytest.mark.parametrize("name", ["last", "iteration-000003"])
def test_all_its_checkpoints_are_read(name: str, folder: Path) -> None:
    run = open_run(folder)
    run.restore(name, with_env=name == "last")
    actions = run.algo.act(torch.zeros(4, run.env.spec.obs_size))
    assert bool(torch.isfinite(actions).all())


def test_it_resumes_to_its_end(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = table(folder)
    with caplog.at_level(logging.WARNING, "ahac"):
        assert train(open_run(folder), display=False)
    assert all("without a checksum" in message for message in caplog.messages)
    assert state(folder)["iteration"] == 12
    after = table(folder)
    assert [row["iteration"] for row in after] == [f"{k}.0" for k in range(1, 13)]
    assert [row["env_steps"] for row in after[:6]] == [row["env_steps"] for row in before]
