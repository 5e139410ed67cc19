"""A run restores the process state that it changes, and deterministic runs repeat."""

import json
import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from ahac.algos.algorithm import IterationResult
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.env import Env
from ahac.core.errors import InputError
from ahac.training import process
from ahac.training.config import RunConfig
from ahac.training.process import CUBLAS, CUBLAS_FIXED, exclusive_lock, torch_settings
from ahac.training.run import create_run
from ahac.training.trainer import finish, train
from support.small_runs import small_config, state, table

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CUBLAS, raising=False)


@pytest.mark.parametrize("asked", [True, False])
def test_a_run_is_deterministic_where_that_was_asked_for(
    asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    honest = ShortHorizonActorCritic.iterate

    def iterate(self: ShortHorizonActorCritic, env: Env, progress: float) -> IterationResult:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return honest(self, env, progress)

    monkeypatch.setattr(ShortHorizonActorCritic, "iterate", iterate)
    train(create_run(small_config(tmp_path, iterations=2, deterministic=asked)), display=False)
    assert seen == [asked, asked]
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_final_evaluation_is_as_deterministic_as_training_and_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(small_config(tmp_path, iterations=1, deterministic=True, torch_threads=2))
    seen: list[tuple[bool, int]] = []
    honest = ShortHorizonActorCritic.act

    def act(self: ShortHorizonActorCritic, obs: torch.Tensor) -> torch.Tensor:
        seen.append((torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()))
        with pytest.raises(InputError, match="is in use"), exclusive_lock(run.folder, timeout=0.0):
            pass
        return honest(self, obs)

    monkeypatch.setattr(ShortHorizonActorCritic, "act", act)
    found = finish(run, display=False)
    assert found is not None
    assert set(seen) == {(True, 2)}
    assert json.loads((run.folder / "evaluation.json").read_text(encoding="utf-8"))["mean"] == found.mean
    assert not torch.are_deterministic_algorithms_enabled()
    with exclusive_lock(run.folder):
        pass


@pytest.mark.skipif(process.fcntl is None, reason="needs file locks")
def test_a_lock_waits_for_a_process_that_only_looks(tmp_path: Path) -> None:
    with ExitStack() as looking:
        looking.enter_context(exclusive_lock(tmp_path))
        timer = threading.Timer(0.2, looking.close)
        timer.start()
        with exclusive_lock(tmp_path, timeout=60.0):
            timer.join()
        looking.enter_context(exclusive_lock(tmp_path))
        with pytest.raises(InputError, match="is in use"), exclusive_lock(tmp_path, timeout=0.1):
            pass


@pytest.mark.parametrize(
    ("tf32", "device", "wanted"),
    [(True, CUDA, "high"), (False, CUDA, "highest"), (True, CPU, "highest")],
)
def test_tf32_is_used_on_cuda_where_that_was_asked_for(
    tf32: bool, device: torch.device, wanted: str, tmp_path: Path
) -> None:
    with torch_settings(small_config(tmp_path, tf32=tf32), device):
        assert torch.get_float32_matmul_precision() == wanted
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize(
    ("deterministic", "device", "wanted"),
    [
        (True, CUDA, CUBLAS_FIXED),
        (True, CPU, None),
        (False, CUDA, None),
    ],
)
def test_cublas_is_configured_for_deterministic_cuda_runs(
    deterministic: bool, device: torch.device, wanted: str | None, tmp_path: Path
) -> None:
    with torch_settings(small_config(tmp_path, deterministic=deterministic), device):
        assert os.environ.get(CUBLAS) == wanted
    assert CUBLAS not in os.environ


def test_a_setting_of_the_users_own_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CUBLAS, ":16:8")
    with torch_settings(small_config(tmp_path, deterministic=True), CUDA):
        assert os.environ[CUBLAS] == ":16:8"
    assert os.environ[CUBLAS] == ":16:8"


def fail_inside(threads: int, config: RunConfig) -> None:
    with torch_settings(config, CUDA):
        assert torch.get_num_threads() == threads
        assert not torch.are_deterministic_algorithms_enabled()
        raise ZeroDivisionError


@pytest.mark.parametrize("warn_only", [True, False])
def test_everything_is_restored_after_an_error(warn_only: bool, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        with pytest.raises(ZeroDivisionError):
            fail_inside(threads + 1, small_config(tmp_path, torch_threads=threads + 1))
        assert torch.get_num_threads() == threads
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled() == warn_only
    finally:
        torch.use_deterministic_algorithms(False)


def test_on_the_cpu_a_run_repeats_with_and_without(tmp_path: Path) -> None:
    """As the option's help states; `test_resume.py` tests the same for interrupted runs."""
    runs = [
        create_run(small_config(tmp_path, "ahac", iterations=4, deterministic=d, name=n))
        for n, d in (("one", False), ("two", False), ("three", True))
    ]
    for run in runs:
        train(run, display=False)
    assert state(runs[0].folder) == state(runs[1].folder) == state(runs[2].folder)
    assert table(runs[0].folder) == table(runs[1].folder) == table(runs[2].folder)


@pytest.mark.gpu
@pytest.mark.parametrize("algo", ["ahac", "shac"])
def test_on_cuda_a_deterministic_run_repeats(algo: str, tmp_path: Path) -> None:
    runs = [
        create_run(small_config(tmp_path, algo, iterations=6, deterministic=True, device="cuda", name=name))
        for name in ("one", "two")
    ]
    for run in runs:
        train(run, display=False)
    assert state(runs[0].folder) == state(runs[1].folder)
