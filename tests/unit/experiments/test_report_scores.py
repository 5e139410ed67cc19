"""Columns, units and scope of a report's statistics."""

from pathlib import Path

import numpy as np
import pytest

from ahac.experiments.report import scores
from ahac.experiments.report.data import ReportData, read_report_data
from ahac.experiments.report.scores import (
    aggregates,
    choose_scope,
    common_tasks,
    improvements,
    normalize,
    profiles,
)
from support.run_folders import write_run


def read(folder: Path, scores: dict[str, list[float]]) -> ReportData:
    """Write runs by "TASK ALGO [NAME]", one for each score, and read them."""
    for words, values in scores.items():
        task, algo, *name = words.split()
        for seed, score in enumerate(values):
            run = "-".join([task, algo, *name, f"s{seed}"])
            write_run(folder / run, seed, task=task, algo=algo, score=score)
    return read_report_data([folder])


def test_columns_are_algorithms_in_the_order_of_the_paper(tmp_path: Path) -> None:
    data = read(tmp_path, {"ant bptt": [1], "ant svg": [1], "ant ppo": [1], "zoo ahac": [1], "hopper shac": [1]})
    assert data.columns == ["ahac", "shac", "ppo", "svg", "bptt"]
    assert data.tasks == ["hopper", "ant", "zoo"]
    assert data.group("ant", "ahac") is None
    assert data.scores("ant", "ahac").tolist() == []


def test_several_groups_of_an_algorithm_are_columns_of_their_own_on_all_tasks(tmp_path: Path) -> None:
    data = read(tmp_path, {"ant ahac": [1], "ant ahac h16": [2], "hopper ahac h16": [3], "ant ppo": [4]})
    assert data.columns == ["ahac", "ahac-h16", "ppo"]
    assert [data.scores(task, "ahac-h16").tolist() for task in ("ant", "hopper")] == [[2.0], [3.0]]
    assert data.algos == {"ahac": "ahac", "ahac-h16": "ahac", "ppo": "ppo"}


def test_groups_of_the_same_name_in_several_folders_are_told_apart(tmp_path: Path) -> None:
    for folder in ("old", "new"):
        write_run(tmp_path / folder / "ant-ahac-s0", algo="ahac", score=1.0)
    data = read_report_data([tmp_path / "old", tmp_path / "new"])
    assert data.columns == ["old/ahac", "new/ahac"]


def test_a_folder_before_a_column_is_there_on_all_tasks(tmp_path: Path) -> None:
    for folder, task, algo, score in (
        ("full", "hopper", "ahac", 1.0),
        ("full", "cartpole", "ahac", 2.0),
        ("full", "cartpole", "ppo", 3.0),
        ("new", "hopper", "ahac", 4.0),
    ):
        write_run(tmp_path / folder / f"{task}-{algo}-s0", task=task, algo=algo, score=score)
    data = read_report_data([tmp_path / "full", tmp_path / "new"])
    assert sorted(data.columns) == ["full/ahac", "new/ahac", "ppo"]
    assert [data.scores(task, "full/ahac").tolist() for task in ("hopper", "cartpole")] == [[1.0], [2.0]]
    assert [pair.tasks for pair in improvements(data)] == [1, 1], "on Hopper the two folders, on Cartpole PPO"


def test_folders_of_the_same_name_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write_run(tmp_path / folder / "runs" / "ant-ahac-s0", algo="ahac", score=1.0)
    data = read_report_data([tmp_path / "a" / "runs", tmp_path / "b" / "runs"])
    assert data.columns == [str(tmp_path / folder / "runs" / "ahac") for folder in ("a", "b")]


def test_the_current_folder_has_its_name_in_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("here", "there"):
        write_run(tmp_path / folder / "ant-ahac-s0", algo="ahac", score=1.0)
    monkeypatch.chdir(tmp_path / "here")
    assert read_report_data([".", "../there"]).columns == ["here/ahac", "there/ahac"]


def test_of_many_pairs_those_with_the_most_tasks_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read(tmp_path, {"ant ahac": [1], "ant shac": [2], "ant ppo": [3], "hopper shac": [4], "hopper ppo": [5]})
    assert [(pair.first, pair.second) for pair in improvements(data)] == [
        ("ahac", "shac"), ("ahac", "ppo"), ("shac", "ppo"),
    ]  # fmt: skip
    monkeypatch.setattr(scores, "MOST_PAIRS", 2)
    assert [(pair.first, pair.second) for pair in improvements(data)] == [("ahac", "shac"), ("shac", "ppo")]
    assert len(common_tasks(data)) == 3


def test_a_group_that_is_named_like_another_algorithm_is_not_mixed_up_with_it(tmp_path: Path) -> None:
    write_run(tmp_path / "ant-ppo-s0", algo="ahac", score=1.0)
    write_run(tmp_path / "ant-ahac-s0", algo="ahac", score=2.0)
    write_run(tmp_path / "hopper-ppo-s0", task="hopper", algo="ppo", score=3.0)
    data = read_report_data([tmp_path])
    assert sorted(data.columns) == ["ant-ahac", "ant-ppo", "hopper-ppo"]


def test_the_unit_is_the_interquartile_mean_of_ppo(tmp_path: Path) -> None:
    data = read(tmp_path, {"ant ahac": [8, 9], "ant ppo": [2, 2, 2, 10], "hopper ahac": [1], "cartpole ppo": [-5]})
    found = normalize(data)
    assert (found.algo, found.units) == ("ppo", {"ant": 2.0}), "the outlier of 10 does not count"
    assert found.left_out["hopper"] == "PPO has no evaluated run"
    assert found.left_out["cartpole"] == "the score to divide by is not positive (-5)"


def test_the_unit_is_the_score_of_the_best_if_there_is_no_ppo(tmp_path: Path) -> None:
    data = read(tmp_path, {"ant ahac": [8, 10], "ant shac": [3], "hopper ahac": [1], "hopper shac": [2, 4]})
    found = normalize(data)
    assert (found.algo, found.units, found.left_out) == (None, {"hopper": 3.0, "ant": 9.0}, {})


def test_aggregates_are_of_algorithms_with_all_tasks(tmp_path: Path) -> None:
    data = read(
        tmp_path,
        {"ant ppo": [2, 2], "hopper ppo": [5], "ant ahac": [4, 6], "hopper ahac": [5, 5], "ant sac": [3]},
    )
    normalization = normalize(data)
    scope = choose_scope(data, normalization)
    assert (scope.columns, scope.tasks, scope.left_out) == (["ahac", "ppo"], ["hopper", "ant"], ["sac"])
    found = aggregates(data, normalization, scope)
    assert found["ahac"]["mean"].value == pytest.approx((2.5 + 1.0) / 2.0)
    # Within the task with two different scores: 2, 2.5 or 3, and 1 on the other.
    assert (found["ahac"]["mean"].low, found["ahac"]["mean"].high) == pytest.approx((1.5, 2.0))
    assert found["ppo"]["optimality gap"].value == pytest.approx(0.0)
    curves = profiles(data, normalization, scope)
    assert list(curves) == ["ahac", "ppo"]
    profile = curves["ahac"]
    assert profile.thresholds[0] == 0.0
    assert (profile.fractions[0], profile.fractions[-1]) == (1.0, 0.0)
    at = int(np.searchsorted(profile.thresholds, 2.5))
    assert profile.fractions[at] == pytest.approx(0.25), "one of two runs on one of two tasks"


def test_otherwise_they_are_over_the_tasks_in_common(tmp_path: Path) -> None:
    data = read(tmp_path, {"ant ahac": [4], "hopper ahac": [5], "ant shac": [4], "humanoid shac": [3]})
    normalization = normalize(data)
    scope = choose_scope(data, normalization)
    assert (scope.columns, scope.tasks, scope.left_out) == (["ahac", "shac"], ["ant"], [])
    assert np.isnan(aggregates(data, normalization, scope)["ahac"]["mean"].low), "single runs"


def test_a_single_algorithm_with_all_tasks_is_compared_with_the_others_on_theirs(tmp_path: Path) -> None:
    data = read(tmp_path, {"ant ahac": [4], "hopper ahac": [5], "ant shac": [3]})
    scope = choose_scope(data, normalize(data))
    assert (scope.columns, scope.tasks, scope.left_out) == (["ahac", "shac"], ["ant"], [])


def test_no_task_in_common_means_no_aggregates(tmp_path: Path) -> None:
    data = read(tmp_path, {"ant ahac": [4], "hopper shac": [4]})
    normalization = normalize(data)
    scope = choose_scope(data, normalization)
    assert scope.tasks == []
    assert aggregates(data, normalization, scope) == {}
    assert profiles(data, normalization, scope) == {}
    assert improvements(data) == []


def test_one_algorithm_alone_has_aggregates(tmp_path: Path) -> None:
    data = read(tmp_path, {"ant ahac": [4, 5], "hopper ahac": [4, 5]})
    normalization = normalize(data)
    scope = choose_scope(data, normalization)
    assert (scope.columns, scope.tasks) == (["ahac"], ["hopper", "ant"])
    assert aggregates(data, normalization, scope)["ahac"]["mean"].value == pytest.approx(1.0)


def test_improvements_are_over_the_tasks_of_both(tmp_path: Path) -> None:
    data = read(tmp_path, {"ant ahac": [1, 2], "ant shac": [1], "hopper ahac": [0], "hopper shac": [7], "ant ppo": [9]})
    found = {(pair.first, pair.second): pair for pair in improvements(data)}
    assert list(found) == [("ahac", "shac"), ("ahac", "ppo"), ("shac", "ppo")]
    assert found["ahac", "shac"].probability.value == pytest.approx((0.75 + 0.0) / 2.0)
    assert (found["ahac", "shac"].tasks, found["ahac", "ppo"].tasks) == (2, 1)


def test_scores_are_the_means_of_evaluations_of_the_last_iteration(tmp_path: Path) -> None:
    run = write_run(tmp_path / "ant-shac-s0", score=5.0)
    write_run(tmp_path / "ant-shac-s1", 1, score=7.0)
    assert read_report_data([tmp_path]).scores("ant", "shac").tolist() == [5.0, 7.0]
    with (run / "metrics.csv").open("a", encoding="utf-8") as file:
        file.write("4,400,8,9\n")
    assert read_report_data([tmp_path]).scores("ant", "shac").tolist() == [7.0]
