"""Data-parallel training: two processes with half of the worlds each do what one does with all of them.

On the CPU, with the gloo backend, started by torchrun as a user does.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ahac.core.device import resolve_run_device
from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup, init_distributed
from ahac.core.errors import InputError
from ahac.training.checkpoint import load_checkpoint
from ahac.training.run import create_run, open_run
from ahac.training.trainer import train
from support import distributed_program as ranked
from support.small_runs import small_config, table

TESTS = Path(ranked.__file__).parents[1]
ROUNDING = 1e-11
"""Relative, in float64: means are taken over two halves, and matrices have half as many rows, so sums differ in their
order, by 1e-16 each. Contact, five iterations and Adam's division by small moments make 2e-14 of that."""
SINGLE = 1e-4
"""The same in float32, of a run of six iterations: 2e-6 on our machine."""


def python_path() -> str:
    """The import path of a process that uses the tests' helpers."""
    return os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])


def torchrun(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run two processes, killed after two minutes."""
    paths = python_path()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run(
        [*command, *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a run started by one process, and all files of the two ranks."""
    made = tmp_path_factory.mktemp("ranks")
    train(create_run(small_config(made, iterations=6, name="begun-by-one")), 3, display=False)
    return made


@pytest.fixture(scope="module")
def done(folder: Path) -> subprocess.CompletedProcess[str]:
    """Two ranks, the second of which fails in the end."""
    return torchrun(TESTS / "support" / "distributed_program.py", folder, folder=folder)


@pytest.fixture(scope="module")
def found(folder: Path, done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """By rank."""
    assert (folder / "rank-1.pt").exists(), done.stderr
    return [torch.load(folder / f"rank-{rank}.pt", weights_only=False) for rank in range(2)]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one process that was never stopped."""
    run = create_run(small_config(tmp_path_factory.mktemp("one"), iterations=6, name="straight"))
    train(run, display=False)
    return run.folder


@cache
def learnt_alone(case: str) -> dict[str, Any]:
    """The same by one process."""
    return ranked.learnt(case, SINGLE_PROCESS)


def assert_close(got: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float) -> None:
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        if value.is_floating_point():
            scale = value.abs().max().clamp(min=1e-3)
            assert (got[name] - value).abs().max() <= tolerance * scale, name
        else:
            assert torch.equal(got[name], value), name


# ------------------------------------------------------------------------------------------------------------ learning


@pytest.mark.parametrize("case", ranked.learners())
def test_two_ranks_learn_what_one_learns(found: list[dict[str, Any]], case: str) -> None:
    one, two = learnt_alone(case), found[0]["cases"][case]
    assert two["resets"] == one["resets"] > 0, "episodes end on the way"
    assert_close(two["state"], one["state"], ROUNDING)
    assert_close(two["env"], one["env"], ROUNDING)
    assert len(two["rows"]) == len(one["rows"]) == ranked.ITERATIONS
    for got, wanted in zip(two["rows"], one["rows"], strict=True):
        assert list(got) == list(wanted)
        assert got == pytest.approx(wanted, rel=ROUNDING, abs=1e-12)


@pytest.mark.parametrize("case", ranked.learners())
def test_ranks_agree_bit_exactly(found: list[dict[str, Any]], case: str) -> None:
    one, other = (rank["cases"][case] for rank in found)
    assert one["rows"] == other["rows"]
    for part in ("state", "env"):
        assert all(torch.equal(value, other[part][name]) for name, value in one[part].items())


def test_horizons_move_and_worlds_are_cut_in_these_cases(found: list[dict[str, Any]]) -> None:
    rows = {case: value["rows"] for case, value in found[0]["cases"].items()}
    for case in ("growth", "paper"):
        assert len({row["horizon"] for row in rows[case]}) > 1, case
    assert any(row["share_cut"] > 0.0 for row in rows["cut"])
    assert any(row["share_bundled"] > 0.0 for row in rows["bundled"])


def test_a_failure_names_the_world_among_all_ranks(found: list[dict[str, Any]]) -> None:
    world = ranked.POISONED[0]
    (one,) = filter(None, learnt_alone("poisoned")["troubles"])
    for rank in found:
        (what, worlds, reproducer) = next(filter(None, rank["cases"]["poisoned"]["troubles"]))
        assert what.startswith(f"the reward of step 1 in world {world} is not finite; the action there is [")
        assert what == one[0]
        assert worlds.nonzero().tolist() == [[world]]
        assert_close(reproducer, one[2], ROUNDING)


# ---------------------------------------------------------------------------------------------------------------- runs


def assert_like(rows: list[dict[str, str]], wanted: list[dict[str, str]]) -> None:
    assert len(rows) == len(wanted)
    for got, want in zip(rows, wanted, strict=True):
        numbers = [{name: float(x) for name, x in row.items() if x} for row in (got, want)]
        assert numbers[0] == pytest.approx(numbers[1], rel=SINGLE, abs=1e-6)


@pytest.mark.usefixtures("found")
def test_one_process_resumes_a_run_of_two_ranks(folder: Path, straight: Path) -> None:
    run = open_run(folder / "begun-by-two")
    saved = load_checkpoint(run.checkpoints / "last.safetensors")
    assert saved.numbers["iteration"] == 3.0
    assert len(saved.tensors["env/q"]) == run.config.num_envs == 8
    assert train(run, display=False)
    assert_like(table(run.folder), table(straight))


@pytest.mark.usefixtures("found")
def test_two_ranks_resume_a_run_of_one_process(folder: Path, straight: Path) -> None:
    assert_like(table(folder / "begun-by-one"), table(straight))


def test_a_stop_request_to_one_rank_stops_all(folder: Path, found: list[dict[str, Any]]) -> None:
    assert [rank["complete"] for rank in found] == [False, False]
    saved = load_checkpoint(folder / "stopped" / "checkpoints" / "last.safetensors")
    assert saved.numbers["iteration"] == 3.0
    assert len(table(folder / "stopped")) == 3


def test_a_callback_on_rank_zero_stops_all(folder: Path, found: list[dict[str, Any]]) -> None:
    assert [rank["called"] for rank in found] == [[1.0, 2.0], []]
    assert load_checkpoint(folder / "halted" / "checkpoints" / "last.safetensors").numbers["iteration"] == 2.0
    assert len(table(folder / "halted")) == 2


def test_all_ranks_are_in_the_first_ones_folder(folder: Path, found: list[dict[str, Any]]) -> None:
    assert {rank["folder"] for rank in found} == {folder / "begun-by-two"}
    runs = {path.name for path in folder.iterdir() if path.is_dir()}
    assert runs == {"begun-by-one", "begun-by-two", "stopped", "halted", "failing"}


def test_a_rank_that_fails_ends_all(folder: Path, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode != 0
    assert "ZeroDivisionError" in done.stderr
    saved = load_checkpoint(folder / "failing" / "checkpoints" / "last.safetensors")
    assert saved.numbers["iteration"] == 2.0, "nothing is lost"


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads the names of threads from /proc")
def test_no_threads_of_the_group_remain_at_exit(tmp_path: Path) -> None:
    done = torchrun(TESTS / "support" / "threads_at_exit.py", tmp_path, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        names = json.loads((tmp_path / f"rank-{rank}.json").read_text(encoding="utf-8"))
        assert any("gloo" in name for name in names["training"])
        assert not any("gloo" in name for name in names["exit"])


@pytest.mark.extended
def test_the_command_line_under_torchrun(tmp_path: Path) -> None:
    options = ("--num-envs", 8, "--iterations", 2, "--eval-episodes", 4, "--device", "cpu", "--name", "mine")
    done = torchrun("-m", "ahac", "train", "cartpole", *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("ahac on cartpole, 8 worlds on cpu, divided among 2 ranks, in runs/mine") == 1
    evaluation, folder = done.stdout.splitlines()
    assert evaluation.startswith("4 episodes: mean")
    assert folder == "runs/mine"
    made = tmp_path / folder
    assert {"config.json", "manifest.json", "metrics.csv", "evaluation.json"} < {path.name for path in made.iterdir()}
    assert [path.name for path in made.parent.iterdir()] == ["mine"]
    assert json.loads((made / "manifest.json").read_text(encoding="utf-8"))["ranks"] == 2
    assert [int(float(row["env_steps"])) for row in table(made)] == [8 * 16, 8 * 32]
    assert len(list((made / "tensorboard").iterdir())) == 1


@pytest.mark.gpu
def test_collectives_are_captured_in_cuda_graphs(tmp_path: Path) -> None:
    command = [sys.executable, TESTS / "support" / "loopback_ranks.py", "cuda", tmp_path / "store"]
    environment = {**os.environ, "PYTHONPATH": python_path()}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr


# ----------------------------------------------------------------------------------------------------------- refusals


def test_worlds_that_cannot_be_divided_are_refused(tmp_path: Path) -> None:
    message = r"num_envs must be a multiple of the number of ranks, 3, got 8; use 6 or 9, or a number of ranks that"
    with pytest.raises(InputError, match=message):
        create_run(small_config(tmp_path), ProcessGroup(size=3))
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="got 2; use 3, or"):
        ProcessGroup(size=3).local_count(2)


def test_half_of_torchruns_settings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="WORLD_SIZE is set, but not RANK, LOCAL_RANK, LOCAL_WORLD_SIZE; start with"):
        init_distributed()
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert init_distributed() is SINGLE_PROCESS


def test_every_rank_has_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    two = ProcessGroup(rank=5, size=6, local=1, local_size=2)
    assert resolve_run_device("cuda", two) == resolve_run_device("auto", two) == "cuda:1"
    assert resolve_run_device("cpu", two) == "cpu"
    assert resolve_run_device("cuda:1") == "cuda:1"
    with pytest.raises(InputError, match="device must be cuda for 6 ranks, which use one GPU each, got 'cuda:1'"):
        resolve_run_device("cuda:1", two)
    with pytest.raises(InputError, match=r"6 ranks on this machine need one GPU each, but it has 2; start fewer"):
        resolve_run_device("cuda", ProcessGroup(size=6, local_size=6))


# ---------------------------------------------------------------------------------------------------------- reductions


def test_collectives_by_hand(found: list[dict[str, Any]]) -> None:
    """Of 1, 5 on the first rank and 11, 15 on the second."""
    for rank, got in enumerate(each["reduced"] for each in found):
        assert got["share"].tolist() == [[0, 1], [2, 3]][rank]
        assert got["gather"].tolist() == [1.0, 5.0, 11.0, 15.0]
        assert got["gather 1"].tolist() == [[0.0, 1.0, 10.0, 11.0], [2.0, 3.0, 12.0, 13.0], [4.0, 5.0, 14.0, 15.0]]
        assert got["mean"].tolist() == got["gradient"].tolist() == [6.0, 10.0]
        assert got["max"].tolist() == [11.0, 15.0]
        assert got["all"].tolist() == [True, False]
        assert got["any"].tolist() == [False, True]
        assert got["one bool"].item() is True
        assert got["firsts"].tolist() == [1.0, 5.0]
        assert got["ask"] == 0
        assert {name: x.item() for name, x in got["means"].items()} == {"a": 6.0, "b": 10.0}
        assert got["refused"] == "not like this"


def test_collectives_of_one_process_are_the_identity() -> None:
    x = torch.tensor([1.0, 2.0])
    for method in (
        SINGLE_PROCESS.local_slice,
        SINGLE_PROCESS.gather,
        SINGLE_PROCESS.mean,
        SINGLE_PROCESS.max,
        SINGLE_PROCESS.all,
        SINGLE_PROCESS.any,
        SINGLE_PROCESS.from_rank_zero,
    ):
        assert method(x) is x
    numbers = {"a": x}
    assert SINGLE_PROCESS.means(numbers) is numbers
    assert SINGLE_PROCESS.local_count(7) == 7
    assert SINGLE_PROCESS.run_on_rank_zero(lambda: x) is x
