"""Metrics reach the episode window, the table, TensorBoard and the terminal."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ahac.core.env import Step
from ahac.training.csv_log import CsvLog, read_csv
from ahac.training.metrics import WINDOW, EpisodeStats, Stopwatch
from ahac.training.run import create_run, open_run
from ahac.training.sinks import Display, TensorBoardSink
from ahac.training.trainer import train
from support.scripted_env import made_step
from support.small_runs import small_config


def ending(returns: list[float], done: list[bool]) -> Step:
    return made_step(
        terminated=torch.tensor(done),
        episode_return=torch.tensor(returns),
        episode_length=torch.tensor(returns).abs() + 1.0,
    )


def row(iteration: int, **more: float) -> dict[str, float]:
    return {"iteration": float(iteration), "env_steps": 64.0 * iteration, "seconds": 0.5 * iteration, **more}


def test_episodes_have_no_values_before_one_has_ended() -> None:
    episodes = EpisodeStats()
    episodes.update([ending([1.0, 2.0], [False, False])])
    assert episodes.metrics() == {}


def test_episodes_count_what_ended_and_nothing_else() -> None:
    episodes = EpisodeStats()
    episodes.update([ending([1.0, 50.0], [True, False]), ending([70.0, 3.0], [False, True])])
    assert episodes.metrics() == {"episode_return": 2.0, "episode_length": 3.0}


def test_episodes_forget_those_beyond_the_window() -> None:
    episodes = EpisodeStats()
    for k in range(WINDOW + 50):
        episodes.update([ending([float(k)], [True])])
    assert episodes.metrics()["episode_return"] == sum(range(50, WINDOW + 50)) / WINDOW


@pytest.mark.parametrize("count", [0, 1, WINDOW + 7])
def test_a_window_is_restored(count: int) -> None:
    episodes, back = EpisodeStats(), EpisodeStats()
    for k in range(count):
        episodes.update([ending([k / 7.0], [True])])
    back.load_state_dict(episodes.state_dict())
    assert back.metrics() == episodes.metrics()
    assert back.returns.maxlen == WINDOW


def test_a_stopwatch_continues_from_earlier_times() -> None:
    clock = Stopwatch(10.0)
    time.sleep(0.01)
    assert 10.01 <= clock.seconds < 12.0


def test_the_table_keeps_every_digit(tmp_path: Path) -> None:
    sink = CsvLog(tmp_path / "m.csv")
    rows = [row(1, x=1.0 / 3.0, y=float("nan")), row(2, x=-1e-300, y=float("inf"))]
    for given in rows:
        sink.write(given)
    got = read_csv(tmp_path / "m.csv")
    assert [r["x"] for r in got] == [1.0 / 3.0, -1e-300]
    assert str(got) == str(rows)


def test_a_column_that_comes_later_is_empty_before(tmp_path: Path) -> None:
    sink = CsvLog(tmp_path / "m.csv")
    for given in (row(1), row(2, episode_return=5.0), row(3)):
        sink.write(given)
    assert read_csv(tmp_path / "m.csv") == [row(1), row(2, episode_return=5.0), row(3)]
    header, *lines = (tmp_path / "m.csv").read_text(encoding="utf-8").splitlines()
    assert header == "iteration,env_steps,seconds,episode_return"
    assert {line.count(",") for line in lines} == {3}


def test_rows_after_the_checkpoint_are_dropped_and_the_others_kept(tmp_path: Path) -> None:
    sink = CsvLog(tmp_path / "m.csv")
    for k in range(1, 7):
        sink.write(row(k, x=k / 3.0))
    again = CsvLog(tmp_path / "m.csv", keep_until=4)
    assert read_csv(tmp_path / "m.csv") == [row(k, x=k / 3.0) for k in range(1, 5)]
    again.write(row(5, x=0.0))
    assert [r["iteration"] for r in read_csv(tmp_path / "m.csv")] == [1, 2, 3, 4, 5]


def test_a_table_of_a_restarted_run_is_empty(tmp_path: Path) -> None:
    CsvLog(tmp_path / "m.csv").write(row(1))
    CsvLog(tmp_path / "m.csv")
    assert read_csv(tmp_path / "m.csv") == []


def scalars(folder: Path, name: str) -> list[tuple[int, float]]:
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(name)]


def test_tensorboard_has_every_number_against_environment_steps(tmp_path: Path) -> None:
    sink = TensorBoardSink(tmp_path)
    for k in (1, 2):
        sink.write(row(k, x=0.5 * k))
    sink.close()
    assert list(tmp_path.glob("events.out.tfevents.*"))
    assert scalars(tmp_path, "train/x") == [(64, 0.5), (128, 1.0)]


def test_tensorboard_shows_every_iteration_of_a_resumed_run_once(tmp_path: Path) -> None:
    run = create_run(small_config(tmp_path, iterations=4))
    train(run, 2, display=False)
    time.sleep(1.1)  # event files are ordered by the second in their names
    train(open_run(run.folder), display=False)
    assert [value for _, value in scalars(run.folder / "tensorboard", "time/iteration")] == [1.0, 2.0, 3.0, 4.0]


def test_without_a_terminal_progress_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(("iteration", 50)) as shown:
        for k in range(1, 51):
            shown.write(row(k, episode_return=12.5, actor_grad_norm=0.25, unknown=1.0))
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert [line.split()[0] for line in lines] == ["1/50", "20/50", "40/50", "50/50"]
    assert lines[1] == "20/50  1280 steps  10 s  return 12.5  gradient norm 0.25"
    assert "\x1b" not in err


def test_lines_are_not_wrapped(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    with Display(("iteration", 1)) as shown:
        shown.write(row(1, episode_return=1.0, episode_length=2.0, horizon=3.0, stiffness=4.0, critic_loss=5.0))
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_on_a_terminal_progress_is_drawn_and_leaves_it_usable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with Display(("iteration", 2)) as shown:
        shown.write(row(1, episode_return=12345.0))
        shown.write(row(2, episode_return=float("nan")))
    err = capsys.readouterr().err
    assert "2/2" in err
    assert err.rfind("\x1b[?25h") > err.rfind("\x1b[?25l"), "the cursor is shown again"


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_is_shown_without_display(
    terminal: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(replace(small_config(tmp_path), iterations=1))
    _ = run.env, capsys.readouterr()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setenv("TERM", "xterm")
    train(run, display=False)
    err = capsys.readouterr().err
    assert "1/1" not in err
    assert "\x1b" not in err


def test_a_new_column_is_where_its_row_has_it(tmp_path: Path) -> None:
    sink = CsvLog(tmp_path / "metrics.csv")
    sink.write({"iteration": 1.0, "loss": 2.0})
    sink.write({"iteration": 2.0, "return": 5.0, "loss": 1.0, "end": 0.0})
    assert (tmp_path / "metrics.csv").read_text().splitlines()[0] == "iteration,return,loss,end"
    assert read_csv(tmp_path / "metrics.csv")[0] == {"iteration": 1.0, "loss": 2.0}
    again = CsvLog(tmp_path / "metrics.csv", keep_until=2)
    assert again.columns == ["iteration", "return", "loss", "end"]
