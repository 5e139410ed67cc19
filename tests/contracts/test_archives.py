"""Archived runs in the documentation: they can be read, are listed, and have the evaluations of the tables."""

import csv
from pathlib import Path

import pytest

from ahac.experiments.archives import SUFFIX
from ahac.experiments.run_sets import RunSet

RESULTS = Path(__file__).parents[2] / "docs" / "results"
ARCHIVES = sorted((RESULTS / "archives").glob(f"*{SUFFIX}"))
STUDIES = ("first-order-fasttd3", "first-order-seconds", "first-order", "ablation", "ahac1", "gait")
"""Studies whose archives start with their name; all others are of paper-main, whose runs may have the same names."""
STOPPED = (
    *(f"snu_humanoid-ppo-s{seed}" for seed in range(5, 10)),
    *(f"{task}-svg-s{seed}" for task in ("anymal", "humanoid", "snu_humanoid") for seed in range(3)),
    *(f"{task}-sac-s{seed}" for task, seeds in (("anymal", 2), ("humanoid", 1)) for seed in range(seeds)),
)
"""Runs that were stopped and evaluated."""
SECOND_TRAINING = "humanoid-shac.tar.xz"
"""Learning curves of runs that were trained twice, four of them stopped up to 19 iterations before the end, without
evaluations."""
NOT_EVALUATED = "snu_humanoid-sac.tar.xz"
"""Runs that were stopped, and whose policies were lost."""
ROUNDING = 5e-5
"""Relative rounding error of a number with five significant digits, as in the tables."""


def table_rows(archive: Path) -> dict[str, dict[str, str]]:
    """Return the rows of the table of the archive's study, by run."""
    study = next((name for name in STUDIES if archive.name.startswith(name)), "paper-main")
    with (RESULTS / f"{study}.csv").open(newline="", encoding="utf-8") as file:
        return {row["run"]: row for row in csv.DictReader(file)}


def test_there_are_archives() -> None:
    assert ARCHIVES


@pytest.mark.parametrize(
    "archive",
    [path for path in ARCHIVES if path.name not in (SECOND_TRAINING, NOT_EVALUATED)],
    ids=lambda path: path.name,
)
def test_archived_runs_are_those_of_the_tables(archive: Path) -> None:
    runs, expected = RunSet([archive]), table_rows(archive)
    for run in runs.read():
        row = expected[run.folder.name]
        assert run.complete == (run.folder.name not in STOPPED)
        assert run.last("iteration") == int(row["iterations"])
        assert run.evaluation is not None
        assert run.evaluation["mean"] == pytest.approx(float(row["evaluation_mean"]), rel=ROUNDING)
    assert not runs.skipped


def test_curves_of_a_second_training_reach_the_end_and_the_same_number_of_steps() -> None:
    expected = table_rows(RESULTS / "archives" / SECOND_TRAINING)
    runs = list(RunSet([RESULTS / "archives" / SECOND_TRAINING]).read())
    assert len(runs) == 10
    for run in runs:
        row = expected[run.folder.name]
        left = int(row["iterations"]) - run.last("iteration")
        assert 0 <= left <= 19
        per_iteration = int(row["env_steps"]) // int(row["iterations"])
        assert run.last("env_steps") == int(row["env_steps"]) - left * per_iteration
        for millions in (2, 5, 10):
            at = run.return_at("env_steps", millions * 1e6)
            assert at == pytest.approx(float(row[f"return_at_{millions}M_steps"]), rel=ROUNDING)


def test_runs_without_an_evaluation_have_the_returns_of_the_table() -> None:
    expected = table_rows(RESULTS / "archives" / NOT_EVALUATED)
    runs = list(RunSet([RESULTS / "archives" / NOT_EVALUATED]).read())
    assert len(runs) == 3
    for run in runs:
        row = expected[run.folder.name]
        assert (run.complete, run.evaluation, row["evaluation_mean"]) == (False, None, "")
        assert run.last("iteration") == int(row["iterations"])
        assert run.return_at("env_steps", 20e6) == pytest.approx(float(row["return_at_20M_steps"]), rel=ROUNDING)


def test_the_page_lists_all_archives() -> None:
    page = (RESULTS / "archives" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in ARCHIVES if f"[{path.name}]({path.name})" not in page] == []
