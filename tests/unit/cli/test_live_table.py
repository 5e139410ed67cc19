"""The table of a sweep: what it shows, on a terminal and elsewhere, and how it reads metrics.csv."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from ahac.cli import live_table
from ahac.cli.live_table import SweepDisplay, last_row
from ahac.experiments.sweep import RunState
from ahac.training.config import RunConfig
from support.small_runs import small_config

HEADER = "iteration,env_steps,seconds,steps_per_second,episode_return\n"


def written(config: RunConfig, *rows: str) -> RunConfig:
    folder = Path(config.out) / config.name
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text(HEADER + "".join(rows), encoding="utf-8")
    return config


def rendered(display: SweepDisplay, states: dict[str, RunState]) -> list[str]:
    console = Console(file=StringIO(), width=120)
    console.print(display.table(states))
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_every_run_has_its_state_progress_return_seconds_and_speed(tmp_path: Path) -> None:
    configs = [
        small_config(tmp_path, name="waits"),
        written(small_config(tmp_path, name="trains"), "1,8,2,40,\n", "2,16,3.4,1234.5,56.78\n"),
        written(small_config(tmp_path, name="steps", env_steps=2000), "2,1600,3,8,1\n"),
        small_config(tmp_path, name="starts"),
        written(small_config(tmp_path, name="other"), "3,24,5,50,7\n"),
    ]
    states: dict[str, RunState] = {
        "waits": "waiting", "trains": "running", "steps": "finished", "starts": "running",
        "other": "in use",
    }  # fmt: skip
    title, header, *rows = rendered(SweepDisplay(configs), states)
    assert title == "2 running, 1 in use, 1 waiting, 1 finished"
    assert header.split() == ["run", "state", "progress", "return", "seconds", "steps/s"]
    assert [row.split() for row in rows] == [
        ["trains", "running", "2/12", "56.8", "3", "1,234"],
        ["starts", "starting", "0/12", "-", "-", "-"],
        ["other", "in", "use", "3/12", "7.0", "5", "50"],
        ["waits", "waiting", "0/12", "-", "-", "-"],
        ["steps", "finished", "1,600/2,000", "1.0", "3", "8"],
    ]


def test_a_table_that_does_not_fit_shows_what_trains_and_counts_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINES", "8")
    configs = [small_config(tmp_path, name=f"run{k}") for k in range(9)]
    states: dict[str, RunState] = {config.name: "waiting" for config in configs}
    states |= {"run7": "running", "run8": "failed"}
    display = SweepDisplay(configs)
    display.console.height = 8
    _, _, *rows, rest = rendered(display, states)
    assert [row.split()[0] for row in rows] == ["run7", "run8", "run0"]
    assert rest == "... 6 more: 6 waiting"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("\n", {}),
        ("a,b\n", {}),
        ("a,b\n1,2\n", {"a": 1.0, "b": 2.0}),
        ("a,b\r\n1,2\r\n", {"a": 1.0, "b": 2.0}),
        ("a,b\n1,2\n3,\n", {"a": 3.0}),
        ("a,b\n1,2\n3,4", {"a": 1.0, "b": 2.0}),
        ("a,b\n1,2\n3\n", {}),
        ("a,b\n1,x\n", {}),
        ("a,b\n" + "1,2\n" * 9000 + "3,4\n", {"a": 3.0, "b": 4.0}),
    ],
)
def test_the_last_complete_row_is_read(text: str, expected: dict[str, float], tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    assert last_row(path) == {}
    path.write_text(text, encoding="utf-8")
    assert last_row(path) == expected


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("a,b\nnot,numbers\n" + "1,2\n" * 20, encoding="utf-8")
    monkeypatch.setattr(live_table, "TAIL_BYTES", 10)
    assert last_row(path) == {"a": 1.0, "b": 2.0}


def test_without_a_terminal_events_are_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SweepDisplay([small_config(tmp_path, name="a")]) as display:
        display.on_event("a started")
        display.on_progress({"a": "running"})
    assert capsys.readouterr().err == "a started\n"


def test_on_a_terminal_there_is_a_table_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with SweepDisplay([small_config(tmp_path, name="a")]) as display:
        display.on_event("a started")
        display.on_progress({"a": "running"})
        shown = capsys.readouterr().err
        display.on_progress({"a": "finished"})
        assert not capsys.readouterr().err, "it is too early for a refresh"
    assert "a started" not in shown
    assert "1 running" in shown
    assert "1 finished" in capsys.readouterr().err, "the last state is shown"


def test_reasons_that_the_table_does_not_show_are_above_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    events = [
        "a failed: exit status 1, [red]a node was lost; retry 1 of 1",
        "a is in use: another process trains it; the sweep waits for it",
        "a failed: \x1b[31mno; 2 attempts (1 of 1)",
    ]
    with SweepDisplay([small_config(tmp_path, name="a")]) as display:
        display.on_progress({"a": "running"})
        for line in ("a started, log: a.log", *events, "a finished: mean return 3.5, 1 s (1 of 1)"):
            display.on_event(line)
        shown = capsys.readouterr().err
    for line in events:
        assert line.replace("\x1b", r"\x1b") in shown
    assert "started" not in shown
    assert "finished" not in shown
