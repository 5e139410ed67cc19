"""Checkpoints are complete or absent, and damage is reported."""

import errno
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ahac.algos.config import ShortHorizonConfig
from ahac.core.files import WriteError
from ahac.training.checkpoint import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
from ahac.training.run import Run, create_run
from ahac.training.trainer import train
from support.small_runs import bits, small_config

TENSORS = {
    "algo/weight": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
    "algo/score": torch.tensor([float("nan"), float("inf"), -0.0], dtype=torch.float64),
    "env/steps": torch.arange(5),
    "env/transposed": torch.arange(6.0).reshape(2, 3).T,
    "env/empty": torch.zeros(2, 0),
    "trainer/flags": torch.tensor([True, False]),
}
NUMBERS = {"iteration": 7.0, "best": float("-inf"), "seconds": 0.1}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoints" / "last.safetensors"
    save_checkpoint(path, Checkpoint(TENSORS, NUMBERS))
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = create_run(small_config(tmp_path_factory.mktemp("runs"), checkpoint_every=5))
    train(run, display=False)
    return run


def test_a_checkpoint_is_loaded_bit_exactly(saved: Path) -> None:
    loaded = load_checkpoint(saved)
    assert bits(dict(loaded.tensors)) == bits(TENSORS)
    assert loaded.numbers == NUMBERS
    assert set(loaded.section("env")) == {"steps", "transposed", "empty"}


def test_saving_leaves_nothing_but_the_checkpoint(saved: Path) -> None:
    assert [path.name for path in saved.parent.iterdir()] == ["last.safetensors"]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"there is no file .*gone"):
        load_checkpoint(tmp_path / "gone.safetensors")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_file_is_refused(share: float, saved: Path) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CheckpointError, match=r"last\.safetensors is damaged or not a checkpoint"):
        load_checkpoint(saved)


def test_a_text_file_is_refused(saved: Path) -> None:
    saved.write_text("this is no checkpoint\n" * 100, encoding="utf-8")
    with pytest.raises(CheckpointError, match="damaged or not a checkpoint"):
        load_checkpoint(saved)


@pytest.mark.parametrize("header", [{"version": "99"}, {"format": "pt"}, None])
def test_another_version_is_refused(header: dict[str, str] | None, saved: Path) -> None:
    save_file({"x": torch.zeros(1)}, saved, metadata=header)
    got = (header or {}).get("version", "none")
    with pytest.raises(CheckpointError, match=rf"format version {got}; this program reads versions 1 to 2"):
        load_checkpoint(saved)


def test_a_full_disk_leaves_the_previous_checkpoint(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, honest = saved.read_bytes(), Path.write_bytes

    def half(path: Path, content: bytes) -> int:
        honest(path, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", half)
        with pytest.raises(WriteError, match=r"cannot write .*last\.safetensors': No space left.*free some disk space"):
            save_checkpoint(saved, Checkpoint({"other": torch.ones(100)}, {}))
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["last.safetensors"]


def test_last_best_and_every_kept_iteration_are_there(trained: Run) -> None:
    names = {path.stem for path in trained.checkpoints.iterdir()}
    assert names == {"last", "best", "iteration-000005", "iteration-000010"}
    numbers = {name: trained.restore(name).numbers["iteration"] for name in names}
    assert numbers["iteration-000005"] == 5
    assert numbers["iteration-000010"] == 10
    assert numbers["last"] == 12
    assert numbers["best"] in (5, 10)


def test_restoring_brings_back_the_policy_of_that_iteration(trained: Run) -> None:
    obs = torch.randn(4, trained.env.spec.obs_size, generator=torch.Generator().manual_seed(1))
    trained.restore("iteration-000005")
    early = trained.algo.act(obs)
    trained.restore("last")
    late = trained.algo.act(obs)
    trained.restore("iteration-000005")
    assert torch.equal(trained.algo.act(obs), early)
    assert not torch.equal(late, early)


def test_an_unknown_name_is_refused_with_the_known_ones(trained: Run) -> None:
    with pytest.raises(CheckpointError, match=r"no checkpoint 'worst'; it has: best, iteration-000005, .*, last"):
        trained.restore("worst")


def test_a_run_without_checkpoints_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="it has: none"):
        create_run(small_config(tmp_path)).restore()


@pytest.mark.parametrize("changed", ["networks", "worlds", "algo", "task"])
def test_a_checkpoint_of_another_run_is_refused(changed: str, trained: Run, tmp_path: Path) -> None:
    config = replace(trained.config, out=str(tmp_path))
    assert isinstance(config.algorithm, ShortHorizonConfig)
    actor = replace(config.algorithm.actor, hidden=(7,))
    other = create_run(
        {
            "networks": replace(config, algorithm=replace(config.algorithm, actor=actor)),
            "worlds": replace(config, num_envs=4),
            "algo": small_config(tmp_path, "ahac"),
            "task": small_config(tmp_path, task="cartpole"),
        }[changed]
    )
    shutil.copytree(trained.checkpoints, other.checkpoints)
    with pytest.raises(CheckpointError, match="does not fit the settings"):
        other.restore()
