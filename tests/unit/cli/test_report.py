"""`ahac report` and `ahac collect`: files, messages and errors."""

import subprocess
import sys
from pathlib import Path

import pytest

from ahac.cli.main import main
from ahac.cli.report import REFERENCES
from ahac.experiments.report.paper import REFERENCE
from support.run_folders import write_run

REFUSED = """
import sys
from ahac.cli.main import main
for words in (["report", "nowhere", "--out", "a.html"], ["collect", "nowhere", "--out", "a.csv"]):
    assert main(words) == 2
assert "torch" not in sys.modules
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "runs" / "ant-shac-s0", score=1.0)
    write_run(tmp_path / "runs" / "ant-ppo-s0", algo="ppo", score=2.0)
    return tmp_path / "runs"


def test_a_report_is_written_and_named(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, text = tmp_path / "a.html", tmp_path / "b.md"
    given = ["report", str(runs), "--out", str(page), "--markdown", str(text), "--title", "Ours & theirs"]
    assert main([*given, "--reference", "paper", "--note", "PPO & SHAC.", "--note", "One seed."]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == [str(page), str(text)]
    assert all(Path(line).is_file() for line in printed)
    assert "<h1>Ours &amp; theirs</h1>" in page.read_text(encoding="utf-8")
    assert "<p>PPO &amp; SHAC.</p>\n<p>One seed.</p>" in page.read_text(encoding="utf-8")
    assert "| ant | 9,313 | 1 | 7,662 | 2 | 6,605 |" in text.read_text(encoding="utf-8")


def test_the_figures_of_the_paper_are_not_shown_by_default(runs: Path, tmp_path: Path) -> None:
    assert main(["report", str(runs), "--out", str(tmp_path / "a.html")]) == 0
    assert "7,662" not in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert (REFERENCE,) == REFERENCES


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "missing --out"),
        (["--out", "a.pdf"], "expected a file name that ends with .html, got 'a.pdf'"),
        (["--out", "nowhere/a.html"], "there is no folder 'nowhere'"),
        (["--out", "a.html", "--markdown", "a.txt"], "ends with .md, got 'a.txt'"),
        (["--out", "a.html", "--reference", "book"], "expected one of paper, got 'book'"),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    given: list[str],
    message: str,
    runs: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(runs.parent)
    assert main(["report", str(runs), *given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not list(runs.parent.glob("a.*"))


def test_a_missing_matplotlib_is_explained(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["report", str(runs), "--out", str(tmp_path / "a.html")]) == 2
    assert "pip install 'ahac[plot]'" in capsys.readouterr().err
    assert not (tmp_path / "a.html").exists()


def test_tables_are_written(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "a.csv"
    assert main(["collect", str(runs), "--out", str(table)]) == 0
    assert capsys.readouterr().out == f"6 rows: {table}\n"
    assert main(["collect", str(runs / "ant-ppo-s0"), "--out", str(table), "--final"]) == 0
    assert capsys.readouterr().out == f"1 row: {table}\n"
    assert len(table.read_text(encoding="utf-8").splitlines()) == 2


def test_tables_of_every_nth_iteration(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "a.csv"
    assert main(["collect", str(runs), "--out", str(table), "--every", "100"]) == 0
    assert capsys.readouterr().out == f"{len(list(runs.iterdir()))} rows: {table}\n", (
        "only the last iterations are left"
    )
    assert main(["collect", str(runs), "--out", str(table), "--every", "0"]) == 2
    assert "every must be a whole number of at least 1, got 0" in capsys.readouterr().err
    assert main(["collect", str(runs), "--out", str(table), "--every", "2", "--final"]) == 2
    assert "every must be 1 with final" in capsys.readouterr().err


def test_tables_of_other_formats_are_refused(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", str(runs), "--out", str(tmp_path / "a.txt")]) == 2
    assert "must be a .csv or .parquet file" in capsys.readouterr().err


def test_torch_is_not_imported_for_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", REFUSED], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 2, "one line each"


def test_archives_take_the_place_of_folders(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "runs.tar.xz"
    assert main(["collect", str(runs), "--out", str(archive)]) == 0
    assert capsys.readouterr().out == f"{len(list(runs.iterdir()))} runs: {archive}\n"
    for words in (["compare"], ["collect", "--out", str(tmp_path / "a.csv")]):
        shown = []
        for source in (runs, archive):
            assert main([words[0], str(source), *words[1:]]) == 0
            table = (tmp_path / "a.csv").read_text(encoding="utf-8") if "--out" in words else ""
            shown.append((capsys.readouterr().out, sorted(table.splitlines())))
        assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["RUNS", "--out", "a.tar.xz", "--final"], "--final selects the rows of a table; an archive has all of them"),
        (["none.tar.xz", "--out", "a.csv"], "no file 'none.tar.xz'; expected an archive of runs, as `ahac collect`"),
    ],
)
def test_archives_that_cannot_be_written_or_read(
    runs: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["collect", *(str(runs) if word == "RUNS" else word for word in words)]) == 2
    assert message in capsys.readouterr().err


def test_commands_that_need_checkpoints_refuse_archives(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "runs.tar.xz"
    assert main(["collect", str(runs), "--out", str(archive)]) == 0
    assert main(["eval", str(archive)]) == 2
    assert "is an archive of runs, which has no checkpoints; expected a run folder" in capsys.readouterr().err
