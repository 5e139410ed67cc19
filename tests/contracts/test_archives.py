"""Archived runs in the documentation: they can be read, are listed, and have the evaluations of the tables."""

import csv
from pathlib import Path

import pytest

from ahac.experiments.archives import SUFFIX
from ahac.experiments.run_sets import RunSet

RESULTS = Path(__file__).parents[2] / "docs" / "results"
ARCHIVES = sorted((RESULTS / "archives").glob(f"*{SUFFIX}"))
STUDIES = ("first-order", "ablation", "ahac1")
"""Studies whose archives start with their name; all others are of paper-main, whose runs may have the same names."""
ROUNDING = 5e-5
"""Relative rounding error of a number with five significant digits, as in the tables."""


def evaluations(archive: Path) -> dict[str, float]:
    """Return the mean evaluation returns in the table of the archive's study, by run."""
    study = next((name for name in STUDIES if archive.name.startswith(name)), "paper-main")
    with (RESULTS / f"{study}.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["evaluation_mean"]]  # a stopped run has none
    return {row["run"]: float(row["evaluation_mean"]) for row in rows}


def test_there_are_archives() -> None:
    assert ARCHIVES


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_archived_runs_are_those_of_the_tables(archive: Path) -> None:
    runs, expected = RunSet([archive]), evaluations(archive)
    for run in runs.read():
        assert run.complete
        assert run.evaluation is not None
        assert run.evaluation["mean"] == pytest.approx(expected[run.folder.name], rel=ROUNDING)
    assert not runs.skipped


def test_the_page_lists_all_archives() -> None:
    page = (RESULTS / "archives" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in ARCHIVES if f"[{path.name}]({path.name})" not in page] == []
