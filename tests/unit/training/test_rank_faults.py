"""Ranks that are killed during data-parallel training: the ranks attack of `make faults`.

The survivors end at once with a clear error, and the run resumes: with as many ranks to the same bits, with fewer or
more up to rounding.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import faults

TESTS = Path(faults.__file__).parents[1]


def attacked(folder: Path, count: int, *algos: str) -> list[dict[str, Any]]:
    """Outcomes of the first attacks on two ranks."""
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "faults",
            "--only",
            "ranks",
            "--ranks",
            str(count),
            "--algos",
            *algos,
            "--jobs",
            "1",
            "--out",
            str(folder / "out"),
            "--json",
            str(folder / "found.json"),
        ],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert (folder / "found.json").exists(), done.stderr
    return json.loads((folder / "found.json").read_text(encoding="utf-8"))["outcomes"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return attacked(tmp_path_factory.mktemp("ranks"), 2, "shac")


@pytest.mark.extended
def test_the_second_rank_is_killed_in_training(outcomes: list[dict[str, Any]]) -> None:
    assert "the second rank is killed" in outcomes[0]["what"]
    assert outcomes[0]["problems"] == []
    assert outcomes[0]["result"] == "resumed by 2, identical"


@pytest.mark.extended
def test_the_first_rank_is_killed_while_it_writes_a_checkpoint(outcomes: list[dict[str, Any]]) -> None:
    assert "the first rank is killed half rename of last.safetensors" in outcomes[1]["what"]
    assert outcomes[1]["problems"] == []
    assert outcomes[1]["result"] == "resumed by 2, identical"


@pytest.mark.extended
def test_another_number_of_ranks_resumes(tmp_path: Path) -> None:
    outcomes = attacked(tmp_path, 4, "shac")
    for trial, size in ((2, 1), (3, 3)):
        assert outcomes[trial]["problems"] == []
        assert outcomes[trial]["result"] == f"resumed by {size}, complete"


@pytest.mark.extended
def test_more_attacks_on_ranks(tmp_path: Path) -> None:
    found = attacked(tmp_path, 8, "shac", "ahac")
    assert len(found) == 8
    assert [each for each in found if each["problems"]] == []
