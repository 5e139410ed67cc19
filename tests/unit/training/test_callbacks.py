"""Callbacks: when they are called, how they stop a run, and that they lose and change nothing."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import ahac
from ahac.core.errors import InputError
from ahac.training import trainer
from ahac.training.evaluate import Evaluation
from ahac.training.run import Run, create_run, open_run
from ahac.training.trainer import finish, train
from support.small_runs import small_config, state, table


class BrokenError(Exception):
    """An error of a callback."""


class Recorder(ahac.Callback):
    """Notes the calls it gets, and what is on disk at the end."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.calls: list[object] = []
        self.stop_after = stop_after

    def on_training_start(self, run: Run) -> None:
        self.calls.append("start")

    def on_iteration(self, run: Run, metrics: Mapping[str, float]) -> bool | None:
        self.calls.append(int(metrics["iteration"]))
        return False if metrics["iteration"] == self.stop_after else None

    def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
        self.calls.append(len(evaluation.returns))

    def on_training_end(self, run: Run) -> None:
        self.calls.append(f"end after {state(run.folder)['iteration']:g}")


def new_run(folder: Path, **changes: Any) -> Run:  # noqa: ANN401
    return create_run(small_config(folder, iterations=6, **changes))


def raise_at(iteration: int) -> Callable[[Run, Mapping[str, float]], None]:
    def callback(run: Run, metrics: Mapping[str, float]) -> None:
        if metrics["iteration"] == iteration:
            raise BrokenError

    return callback


def test_callbacks_are_called_in_order(tmp_path: Path) -> None:
    seen = Recorder()
    assert train(new_run(tmp_path), display=False, callbacks=[seen])
    assert seen.calls == ["start", 1, 2, 3, 4, 5, 6, "end after 6"]


def test_the_final_evaluation_comes_before_the_end(tmp_path: Path) -> None:
    seen = Recorder()
    assert finish(new_run(tmp_path), display=False, callbacks=[seen]) is not None
    assert seen.calls[-2:] == [4, "end after 6"]


def test_functions_get_the_run_and_the_row_of_the_table(tmp_path: Path) -> None:
    rows: list[tuple[Path, dict[str, float]]] = []
    run = new_run(tmp_path)
    train(run, display=False, callbacks=[lambda run, metrics: rows.append((run.folder, dict(metrics)))])
    assert {folder for folder, _ in rows} == {run.folder}
    assert [row["horizon"] for _, row in rows] == [float(row["horizon"]) for row in table(run.folder)]


def test_false_stops_a_run_that_then_resumes_bit_exactly(tmp_path: Path) -> None:
    whole, run, other = new_run(tmp_path), new_run(tmp_path), Recorder()
    train(whole, display=False)
    assert not train(run, display=False, callbacks=[Recorder(stop_after=3), other])
    assert other.calls == ["start", 1, 2, 3, "end after 3"], "all are called in the last iteration"
    assert len(table(run.folder)) == 3
    resumed = Recorder()
    assert train(open_run(run.folder), display=False, callbacks=[resumed])
    assert resumed.calls == ["start", 4, 5, 6, "end after 6"]
    assert state(run.folder) == state(whole.folder)
    assert table(run.folder) == table(whole.folder)


def test_callbacks_that_only_read_change_nothing(tmp_path: Path) -> None:
    def curious(run: Run, metrics: Mapping[str, float]) -> None:
        torch.rand(3)
        assert math.isfinite(run.evaluate(2).mean)

    plain, watched = new_run(tmp_path), new_run(tmp_path)
    train(plain, display=False)
    train(watched, display=False, callbacks=[Recorder(), curious])
    assert state(watched.folder) == state(plain.folder)
    assert table(watched.folder) == table(plain.folder)


@pytest.mark.parametrize("small", [True, False])
def test_an_error_of_a_callback_loses_no_iteration(
    tmp_path: Path, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not small:
        monkeypatch.setattr(trainer, "SMALL_STATE_BYTES", 10)
    whole, run, seen = new_run(tmp_path), new_run(tmp_path), Recorder()
    train(whole, display=False)
    with pytest.raises(BrokenError):
        train(run, display=False, callbacks=[seen, raise_at(3)])
    assert seen.calls == ["start", 1, 2, 3, "end after 3"]
    assert state(run.folder)["iteration"] == 3.0
    assert len(table(run.folder)) == 3
    assert train(open_run(run.folder), display=False)
    assert state(run.folder) == state(whole.folder)
    assert table(run.folder) == table(whole.folder)


class BrokenEnd(ahac.Callback):
    """Fails at the end."""

    def on_training_end(self, run: Run) -> None:
        raise OSError("cannot end")


def test_errors_at_the_end_are_raised_after_all_have_ended(tmp_path: Path) -> None:
    seen, run = Recorder(), new_run(tmp_path)
    with pytest.raises(OSError, match="cannot end"):
        train(run, display=False, callbacks=[seen, BrokenEnd()])
    assert seen.calls[-1] == "end after 6"


def test_errors_at_the_end_do_not_hide_the_first_one(tmp_path: Path) -> None:
    with pytest.raises(BrokenError) as found:
        train(new_run(tmp_path), display=False, callbacks=[BrokenEnd(), raise_at(2)])
    assert found.value.__notes__ == ["ending BrokenEnd also failed: OSError('cannot end')"]


def test_a_callback_that_does_not_start_ends_training_before_it_begins(tmp_path: Path) -> None:
    class Unwilling(Recorder):
        def on_training_start(self, run: Run) -> None:
            raise BrokenError

    run, before, unwilling = new_run(tmp_path), Recorder(), Unwilling()
    with pytest.raises(BrokenError):
        train(run, display=False, callbacks=[before, unwilling])
    assert before.calls == ["start", "end after 0"]
    assert unwilling.calls == []
    assert train(open_run(run.folder), display=False)


def test_train_and_resume_take_callbacks(tmp_path: Path) -> None:
    first, second = Recorder(stop_after=1), Recorder()
    config = small_config(tmp_path)
    settings = {"num_envs": 8, "iterations": 2, "device": "cpu", "out": str(tmp_path), "algorithm": config.algorithm}
    run = ahac.train("hopper", "shac", display=False, callbacks=[first], **settings)
    ahac.resume(run.folder, display=False, callbacks=[second])
    assert first.calls == ["start", 1, "end after 1"]
    assert second.calls == ["start", 2, "end after 2"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([3], "a callback must be an ahac.Callback or a function of a run and its metrics, got 3"),
        ([Recorder], "got the class Recorder; give an instance"),
        (Recorder(), r"callbacks must be a list, got Recorder; give callbacks=\[...\]"),
    ],
)
def test_what_is_not_a_callback_is_refused_before_a_folder_is_created(
    given: Any,  # noqa: ANN401
    message: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match=message):
        ahac.train("hopper", "shac", out=str(tmp_path), callbacks=given)
    assert not list(tmp_path.iterdir())
