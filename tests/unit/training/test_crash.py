"""After any error in an iteration, the completed ones are on disk and the original error is raised."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ahac.algos.algorithm import IterationResult
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.env import Env
from ahac.core.errors import InputError
from ahac.training import process, trainer
from ahac.training.checkpoint import Checkpoint
from ahac.training.run import Run, create_run, open_run
from ahac.training.sinks import Display, TensorBoardSink
from ahac.training.trainer import TrainingError, train
from support.small_runs import small_config, state, table


class BrokenError(Exception):
    """An error that training does not handle."""


def break_in(iteration: int, patch: pytest.MonkeyPatch, error: BaseException, updated: bool = True) -> None:
    """Raise in that iteration, after its update or before it."""
    honest, done = ShortHorizonActorCritic.iterate, [0]

    def iterate(self: ShortHorizonActorCritic, env: Env, progress: float) -> IterationResult:
        done[0] += 1
        if done[0] == iteration and not updated:
            raise error
        report = honest(self, env, progress)
        if done[0] == iteration:
            raise error
        return report

    patch.setattr(ShortHorizonActorCritic, "iterate", iterate)


def count(kind: type, name: str, patch: pytest.MonkeyPatch) -> list[object]:
    """Collect the objects on which a method of this name is called."""
    honest: Callable[..., object] = getattr(kind, name)
    asked: list[object] = []

    def noted(self: object, *more: object) -> object:
        asked.append(self)
        return honest(self, *more)

    patch.setattr(kind, name, noted)
    return asked


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return create_run(small_config(tmp_path, checkpoint_every=4, name="broken"))


@pytest.mark.parametrize("error", [BrokenError("odd"), TrainingError("known"), MemoryError(), KeyboardInterrupt()])
@pytest.mark.parametrize("updated", [True, False])
def test_an_error_leaves_the_last_completed_iteration(
    error: BaseException, updated: bool, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_in(7, monkeypatch, error, updated)
    with pytest.raises(type(error)) as found:
        train(run, display=False)
    assert found.value is error
    assert state(run.folder)["iteration"] == 6.0
    assert len(table(run.folder)) == 6


def straight_and_broken(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a run that fails in its seventh iteration and an identical one that does not."""
    whole = create_run(replace(run.config, name="straight"))
    train(whole, display=False)
    with monkeypatch.context() as patch:
        break_in(7, patch, BrokenError())
        with pytest.raises(BrokenError):
            train(run, display=False)
    return whole


def test_a_crashed_run_resumes_bit_exactly(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = straight_and_broken(run, monkeypatch)
    assert train(open_run(run.folder), display=False)
    assert state(run.folder) == state(whole.folder)
    assert table(run.folder) == table(whole.folder)


def test_sinks_and_display_are_closed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = count(TensorBoardSink, "close", monkeypatch)
    left = count(Display, "__exit__", monkeypatch)
    break_in(2, monkeypatch, BrokenError())
    with pytest.raises(BrokenError):
        train(run)
    assert [len(asked) for asked in (closed, left)] == [1, 1]


def test_an_error_in_the_first_iteration_leaves_a_run_that_can_begin(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        break_in(1, patch, BrokenError())
        with pytest.raises(BrokenError):
            train(run, display=False)
    assert state(run.folder)["iteration"] == 0.0
    assert train(open_run(run.folder), display=False)


def fill_disk(patch: pytest.MonkeyPatch) -> None:
    """Make every save fail after the one before the first iteration."""
    honest = Run.save

    def save(self: Run, name: str, checkpoint: Checkpoint) -> Path:
        if checkpoint.numbers["iteration"] > 0:
            raise OSError("no space left on device")
        return honest(self, name, checkpoint)

    patch.setattr(Run, "save", save)


def test_the_first_error_is_raised_if_saving_also_fails(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    closed = count(TensorBoardSink, "close", monkeypatch)
    error = BrokenError("the first")
    break_in(3, monkeypatch, error)
    fill_disk(monkeypatch)
    with caplog.at_level(logging.ERROR), pytest.raises(BrokenError, match="the first"):
        train(run, display=False)
    assert "saving the last completed iteration also failed: no space left" in caplog.text
    assert any("no space left" in note for note in error.__notes__)
    assert len(closed) == 1


def test_sinks_are_closed_where_the_last_save_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = count(TensorBoardSink, "close", monkeypatch)
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="no space left"):
        train(run, 2, display=False)
    assert len(closed) == 1


def test_a_run_too_large_to_copy_resumes_from_its_last_checkpoint(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "SMALL_STATE_BYTES", 10)
    whole = straight_and_broken(run, monkeypatch)
    assert state(run.folder)["iteration"] == 4.0
    assert train(open_run(run.folder), display=False)
    assert state(run.folder) == state(whole.folder)
    assert table(run.folder) == table(whole.folder)


@pytest.mark.skipif(process.fcntl is None, reason="needs file locks")
def test_a_run_is_trained_by_one_process_at_a_time(run: Run) -> None:
    with (
        process.exclusive_lock(run.folder),
        pytest.raises(InputError, match="is in use: another process is training it"),
    ):
        train(run, 1, display=False)
    assert not train(run, 1, display=False), "the lock is released"
