"""Invalid values in every field of a run's small files: other runs stay listed, and the reason is reported."""

import csv
import io
import json
import logging
import math
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ahac.cli.compare import lines
from ahac.cli.list import _run_rows
from ahac.cli.main import main
from ahac.core.errors import InputError
from ahac.experiments import compare as module
from ahac.experiments.compare import group_runs, summarize
from ahac.experiments.comparison_files import run_rows
from ahac.experiments.plot import curve
from ahac.experiments.run_files import find_runs, read_run
from ahac.stats.aggregate import bootstrap_interval
from ahac.training.checkpoint import Checkpoint, save_checkpoint
from ahac.training.config import config_to_file
from ahac.training.run import open_run

FIXTURE = Path(__file__).parents[2] / "fixtures" / "runs-0.1.0" / "shac"
MISSING = object()
ODD: list[Any] = [
    MISSING,
    None,
    True,
    "",
    "x",
    r"a$\frac{$",
    ".*(",
    "\ud800",
    -1,
    0,
    1.5,
    math.inf,
    -math.inf,
    math.nan,
    1e308,
    10**400,
    [],
    {},
    [1, 2],
    ["x", None],
    {"x": [math.nan]},
]
CELLS = [
    MISSING,
    "",
    " ",
    "x",
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "1e308",
    "1e999",
    "1,2",
    "\0",
    "\x1b",
    '"',
    "=1",
    "1_0",
    "\ud800",
]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two runs of a group, good-0 and good-1, with warnings disabled, since thousands of them take time."""
    monkeypatch.setattr(module, "bootstrap_interval", partial(bootstrap_interval, resamples=3))
    for seed in (0, 1):
        folder = tmp_path / f"good-{seed}"
        folder.mkdir()
        for name in ("config.json", "metrics.csv", "evaluation.json"):
            shutil.copyfile(FIXTURE / name, folder / name)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        (folder / "config.json").write_text(json.dumps({**config, "schema": 1, "seed": seed}), encoding="utf-8")
    logger = logging.getLogger("ahac")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield tmp_path
    logger.setLevel(before)


def look(runs: Path) -> None:
    """List and compare; good-0 is always listed, and compared unless the other one is of another task."""
    title, *rows = _run_rows(runs)
    assert title.startswith("run ")
    assert [Path(row.split()[0]).name for row in rows] == ["good-0", "good-1"]
    assert "shac" in rows[0]
    assert all(row.isprintable() for row in rows)
    try:
        found = group_runs([runs])
    except InputError as error:
        if "different tasks" not in str(error):
            raise
        return
    groups = summarize(found)
    assert "good" in lines(groups)[1]
    assert any(row["run"] == "good-0" for row in run_rows(found))
    for records in found.values():
        for axis in ("env_steps", "seconds"):
            curve(records, axis)


def places(content: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    """Where there is something in nested dictionaries and lists, two levels deep."""
    if at:
        yield at
    if isinstance(content, dict | list) and len(at) < 2:
        for key in content if isinstance(content, dict) else range(len(content)):
            yield from places(content[key], (*at, key))


def changed(content: Any, at: tuple[Any, ...], value: Any) -> Any:  # noqa: ANN401
    """A copy with another value there, or with none."""
    copy = json.loads(json.dumps(content))
    inner = copy
    for key in at[:-1]:
        inner = inner[key]
    if value is MISSING:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return copy


@pytest.mark.parametrize("name", ["config.json", "evaluation.json"])
def test_any_value_in_any_field_of_a_json_file_hides_no_other_run(name: str, runs: Path) -> None:
    path = runs / "good-1" / name
    content = json.loads(path.read_text(encoding="utf-8"))
    fields = list(places(content))
    assert len(fields) * len(ODD) > 200
    for at in fields:
        for value in ODD:
            path.write_text(json.dumps(changed(content, at, value)), encoding="utf-8")
            look(runs)


def test_any_cell_in_any_column_of_the_table_hides_no_other_run(runs: Path) -> None:
    path = runs / "good-1" / "metrics.csv"
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert len(header) * len(CELLS) > 300
    for column in range(len(header)):
        for cell in CELLS:
            table = [list(row) for row in [header, *rows]]
            if cell is MISSING:
                table = [row[:column] + row[column + 1 :] for row in table]
            else:
                table[-1][column] = str(cell)
            text = io.StringIO()
            for row in table:
                text.write(",".join(row) + "\n")
            path.write_bytes(text.getvalue().encode(errors="surrogateescape" if cell != "\ud800" else "surrogatepass"))
            look(runs)


@pytest.mark.parametrize("name", ["config.json", "evaluation.json", "metrics.csv"])
@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 100, b"\xff\xfe", b"[" * 100_000, b"[1]", b"null", b"{", b"9" * 9999],
    ids=["empty", "zeros", "no text", "deep", "list", "null", "half", "number"],
)
def test_a_file_that_is_something_else_hides_no_other_run(content: bytes, name: str, runs: Path) -> None:
    (runs / "good-1" / name).write_bytes(content)
    look(runs)


@pytest.mark.parametrize("name", ["config.json", "evaluation.json", "metrics.csv"])
def test_a_folder_or_a_dangling_link_in_place_of_a_file_hides_no_other_run(name: str, runs: Path) -> None:
    path = runs / "good-1" / name
    path.unlink()
    path.mkdir()
    look(runs)
    path.rmdir()
    path.symlink_to(runs / "nowhere")
    look(runs)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("evaluation.json", '{"iteration": 6}', "evaluation.json is damaged: it has no interval, iqm, mean"),
        (
            "evaluation.json",
            '{"iteration": 6, "mean": NaN, "iqm": 1, "interval": [1, 2]}',
            "mean must be a finite number, got nan",
        ),
        (
            "evaluation.json",
            '{"iteration": 6, "mean": 1, "iqm": 1, "interval": [1]}',
            "interval must be two numbers, got [1]",
        ),
        (
            "evaluation.json",
            '{"iteration": "6", "mean": 1, "iqm": 1, "interval": [1, 2]}',
            "iteration must be a whole number, got '6'",
        ),
        (
            "config.json",
            '{"task": 5, "algo": "a", "preset": "p", "seed": 1, "iterations": 1}',
            "task must be a name, got 5",
        ),
        (
            "config.json",
            '{"task": "t", "algo": "a", "preset": "p", "seed": ".*", "iterations": 1}',
            "seed must be a whole number, got '.*'",
        ),
        ("metrics.csv", "", "metrics.csv is damaged: its first line is incomplete"),
        ("metrics.csv", "iteration,env_steps,seconds,episode", "metrics.csv is damaged: its first line is incomplete"),
        ("metrics.csv", "iteration,env_steps\n1,2\n", "metrics.csv is damaged: it has no column seconds"),
        ("metrics.csv", "iteration,env_steps,seconds\n1,,2\n", "env_steps is missing at iteration 1"),
        ("metrics.csv", "iteration,env_steps,seconds\n1,1,inf\n", "seconds at iteration 1 must be a finite number"),
        ("metrics.csv", "iteration,env_steps,seconds\n2,1,1\n1,2,2\n", "does not increase at iteration 1"),
    ],
)
def test_list_shows_the_reason_and_compare_skips_the_run(
    name: str,
    content: str,
    reason: str,
    runs: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    (runs / "good-1" / name).write_text(content, encoding="utf-8")
    assert main(["list", "runs", "--out", str(runs)]) == 0
    _, good, damaged = capsys.readouterr().out.splitlines()
    assert good.startswith(f"{runs / 'good-0'} ")
    assert damaged.startswith(f"{runs / 'good-1'} ")
    assert reason in damaged
    with caplog.at_level(logging.WARNING, "ahac"):
        assert main(["compare", str(runs)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["good", "1"]
    (warning,) = caplog.messages
    assert warning.startswith(f"{runs / 'good-1'} is skipped: {runs / 'good-1' / name} ")
    assert reason in warning
    assert main(["compare", str(runs / "good-1")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("ahac: none of the runs can be used: good-1: ")
    assert reason in error


def test_a_run_without_config_json_is_shown_with_the_settings_of_a_checkpoint(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = runs / "good-1"
    config = open_run(folder).config
    save_checkpoint(folder / "checkpoints" / "last.safetensors", Checkpoint({}, {}, config_to_file(config)))
    assert main(["list", "runs", "--out", str(runs)]) == 0
    listed = capsys.readouterr().out
    (folder / "config.json").unlink()
    look(runs)
    assert main(["list", "runs", "--out", str(runs)]) == 0
    assert capsys.readouterr().out == listed
    assert read_run(folder).settings["seed"] == 1
    assert find_runs(folder) == [folder]


def test_a_run_without_config_json_and_without_a_sound_checkpoint_is_shown_with_the_reason(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "good-1" / "config.json").unlink()
    (runs / "good-1" / "checkpoints").mkdir()
    assert find_runs(runs) == [runs / "good-0"], "no checkpoints: it never started"
    (runs / "good-1" / "checkpoints" / "last.safetensors").write_bytes(b"x")
    look(runs)
    assert main(["list", "runs", "--out", str(runs)]) == 0
    assert "good-1" in (line := capsys.readouterr().out.splitlines()[2])
    assert "config.json" in line


def test_non_finite_optional_numbers_are_dropped(runs: Path) -> None:
    text = "iteration,env_steps,seconds,episode_return,esnr\n1,1,1,5,inf\n2,2,2,nan,1e300\n"
    (runs / "good-1" / "metrics.csv").write_text(text, encoding="utf-8")
    record = read_run(runs / "good-1")
    assert record.rows == [
        {"iteration": 1, "env_steps": 1, "seconds": 1, "episode_return": 5},
        {"iteration": 2, "env_steps": 2, "seconds": 2},
    ]
    assert record.return_at("env_steps", 2.0) == 5.0
