"""The table of `ahac compare`."""

import json
from pathlib import Path

import pytest

from ahac.cli.main import main


def made_run(folder: Path, seed: int, returns: list[float], score: float | None = None, task: str = "ant") -> None:
    folder.mkdir(parents=True)
    settings = {"task": task, "algo": "shac", "preset": "default", "iterations": 2, "seed": seed}
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    rows = [f"{k},{1000 * k},{1.5 * k},{x}" for k, x in enumerate(returns, start=1)]
    text = "\n".join(["iteration,env_steps,seconds,episode_return", *rows, ""])
    (folder / "metrics.csv").write_text(text, encoding="utf-8")
    if score is not None:
        content = {"mean": score, "iqm": score, "interval": [score, score], "iteration": len(returns)}
        (folder / "evaluation.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    made_run(tmp_path / "runs" / "ant-long-0", 0, [1.0, 2.0, 3.0], 1234.5)
    made_run(tmp_path / "runs" / "ant-long-1", 1, [1.0, 4.0, 5.0], 1234.5)
    made_run(tmp_path / "runs" / "ant-short-0", 0, [0.5, 7.25])
    return tmp_path / "runs"


def test_compare_prints_one_row_per_group(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs)]) == 0
    head, long, short = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "group"
    assert head.endswith("return at 2,000 steps  at 3 s")
    assert long.split() == ["ant-long", "2", "3,000", "4.5", "-", "1,234.5", "[1,234.5,", "1,234.5]", "3", "3"]
    assert short.split() == ["ant-short", "1", "2,000", "3", "-", "-", "-", "7.2", "7.2"]
    assert len({len(line) for line in (head, long, short)}) == 1


def test_compile_time_has_a_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_run(tmp_path / "ant-0", 0, [1.0])
    (tmp_path / "ant-0" / "metrics.csv").write_text("iteration,env_steps,seconds,compile_seconds\n1,10,2,7\n")
    assert main(["compare", str(tmp_path)]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split()[:6] == ["group", "seeds", "env", "steps", "seconds", "compile"]
    assert row.split()[:5] == ["ant", "1", "10", "2", "7"]


def test_repeated_seeds_count_once(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_run(runs / "ant-long-1-2", 1, [1.0, 4.0, 5.0], 1.0)
    assert main(["compare", str(runs)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["ant-long", "2"]


def test_names_are_shown_without_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_run(tmp_path / "\x1b[2Ja\nb-0", 0, [1.0])
    made_run(tmp_path / "\udcff-0", 0, [1.0])
    assert main(["compare", str(tmp_path)]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == [r"\x1b[2Ja\nb", r"\udcff"]
    assert main(["list", "runs", "--out", str(tmp_path)]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == [rf"{tmp_path}/\x1b[2Ja\nb-0", rf"{tmp_path}/\udcff-0"]
    assert main(["compare", str(tmp_path / "\x1b[31m")]) == 2
    assert r"\x1b[31m is not a run: the folder does not exist" in capsys.readouterr().err


def test_returns_at_given_steps_and_seconds(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs), "--at-steps", "1000", "--at-seconds", "4.5"]) == 0
    head, long, short = capsys.readouterr().out.splitlines()
    assert head.endswith("return at 1,000 steps  at 4.5 s")
    assert long.split()[-2:] == ["1", "4"]
    assert short.split()[-2:] == ["0.5", "-"]


def test_each_point_has_a_column(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "runs.csv"
    places = ["--at-steps", "1000", "2e3", "--at-seconds", "1.5", "3"]
    assert main(["compare", str(runs), *places, "--runs-csv", str(table)]) == 0
    head, long, _ = capsys.readouterr().out.splitlines()
    assert head.endswith("return at 1,000 steps  at 2,000 steps  at 1.5 s  at 3 s")
    assert long.split()[-4:] == ["1", "3", "1", "3"]
    columns, *rows = table.read_text(encoding="utf-8").splitlines()
    assert columns.endswith("return_at_1000_steps,return_at_2000_steps,return_at_1.5_s,return_at_3_s")
    assert [row.split(",")[0] for row in rows] == ["ant-long-0", "ant-long-1", "ant-short-0"]


def test_table_is_also_written_as_csv(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs), "--csv", str(tmp_path / "t.csv")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert len((tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()) == 3


def test_each_task_has_its_own_table(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_run(runs / "hopper-0", 0, [9.0], task="hopper")
    assert main(["compare", str(runs)]) == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if line.startswith("group")]
    assert ["2,000 steps" in heads[0], "1,000 steps" in heads[1], len(heads)] == [True, True, 2]


def test_compare_rejects_folders_without_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(tmp_path)]) == 2
    assert "is neither a run nor a folder of runs" in capsys.readouterr().err


def test_learning_curves_are_plotted(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs), "--plot", str(tmp_path / "a.svg")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert "<svg" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert main(["compare", str(runs), "--plot", str(tmp_path / "a.pdf")]) == 2
    assert ".png or .svg" in capsys.readouterr().err


def test_plotted_columns_can_be_selected(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["compare", str(runs), "--plot", str(tmp_path / "a.svg"), "--curves", "episode_return", "iteration"]) == 0
    )
    assert (tmp_path / "a.svg").stat().st_size > 0
    assert main(["compare", str(runs), "--plot", str(tmp_path / "a.svg"), "--curves", "nonsense"]) == 2
    assert "has 'nonsense' in its metrics.csv; available:" in capsys.readouterr().err
    assert main(["compare", str(runs), "--curves", "horizon"]) == 2
    assert "add --plot FILE" in capsys.readouterr().err
