"""Comparisons of runs, computed by hand: groups, scores over seeds, returns at equal cost."""

import csv
import json
import logging
import math
from pathlib import Path

import pytest

from ahac.core.errors import InputError
from ahac.experiments.compare import Comparison, compare, group_runs
from ahac.experiments.comparison_files import write_groups, write_runs

SETTINGS = {"task": "ant", "algo": "shac", "preset": "default", "iterations": 3, "num_envs": 8}


def made_run(
    folder: Path, seed: int, returns: list[float | None], score: float | None = None, pace: float = 1.0, **more: object
) -> Path:
    """A run of 100 environment steps and `pace` seconds per iteration; its return is None before an episode ended."""
    folder.mkdir(parents=True)
    settings = {**SETTINGS, "seed": seed, "name": folder.name, "out": str(folder.parent), **more}
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    lines = ["iteration,env_steps,seconds,episode_return"]
    lines += [f"{k},{100 * k},{pace * k},{'' if x is None else x}" for k, x in enumerate(returns, start=1)]
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if score is not None:
        content = {"mean": score, "iqm": 0.0, "interval": [0.0, 0.0], "iteration": len(returns)}
        (folder / "evaluation.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """SHAC with three seeds; AHAC with two, which are slower and go further."""
    out = tmp_path / "runs"
    made_run(out / "ant-shac-s0", 0, [None, 10.0, 20.0], score=0.0)
    made_run(out / "ant-shac-s1", 1, [1.0, 11.0, 21.0], score=3.0)
    made_run(out / "ant-shac-s2", 2, [2.0, 12.0, 40.0], score=90.0)
    made_run(out / "ant-ahac-0", 0, [5.0, 15.0, 25.0, 35.0], score=100.0, pace=2.0, algo="ahac")
    made_run(out / "ant-ahac-1", 1, [7.0, 17.0, 27.0, 37.0], score=200.0, pace=2.0, algo="ahac")
    return out


def by_name(groups: list[Comparison]) -> dict[str, Comparison]:
    return {group.group: group for group in groups}


def test_groups_are_named_after_their_folders_without_the_seed(runs: Path) -> None:
    groups = compare([runs])
    assert [(g.group, g.seeds) for g in groups] == [("ant-ahac", (0, 1)), ("ant-shac", (0, 1, 2))]
    assert [g.task for g in groups] == ["ant", "ant"]


def test_scores_are_interquartile_means_over_seeds_by_hand(runs: Path) -> None:
    found = by_name(compare([runs]))
    assert found["ant-ahac"].score == 150.0
    # Half of three runs is one and a half: the middle one whole, the others a quarter each.
    assert found["ant-shac"].score == pytest.approx((0.25 * 0.0 + 3.0 + 0.25 * 90.0) / 1.5)
    assert (found["ant-ahac"].low, found["ant-ahac"].high) == (100.0, 200.0)
    assert found["ant-shac"].low == 0.0
    assert found["ant-shac"].high == 90.0


def test_steps_and_seconds_are_means_at_the_end(runs: Path) -> None:
    found = by_name(compare([runs]))
    assert (found["ant-shac"].env_steps, found["ant-shac"].seconds) == (300.0, 3.0)
    assert (found["ant-ahac"].env_steps, found["ant-ahac"].seconds) == (400.0, 8.0)


def test_returns_are_compared_at_the_end_of_the_shortest_run(runs: Path) -> None:
    found = by_name(compare([runs]))
    assert found["ant-ahac"].at_steps == {300.0: 26.0}
    assert found["ant-ahac"].at_seconds == {3.0: 6.0}, "after three seconds one iteration is through"
    assert found["ant-shac"].at_steps == {300.0: pytest.approx((0.25 * 20.0 + 21.0 + 0.25 * 40.0) / 1.5)}
    assert found["ant-shac"].at_seconds == {3.0: found["ant-shac"].at_steps[300.0]}


def test_returns_are_compared_where_asked(runs: Path) -> None:
    found = by_name(compare([runs], at_steps=[250], at_seconds=[2, 4]))
    assert found["ant-ahac"].at_steps == {250.0: 16.0}, "the latest one that was known there"
    assert found["ant-ahac"].at_seconds == {2.0: 6.0, 4.0: 16.0}
    assert found["ant-shac"].at_steps == {250.0: 11.0}
    assert found["ant-shac"].at_seconds[2.0] == 11.0
    assert math.isnan(found["ant-shac"].at_seconds[4.0]), "it has three seconds"
    with pytest.raises(InputError, match=r"a point on env_steps must be a finite number of at least 0, got -1"):
        compare([runs], at_steps=[-1])


def test_a_return_that_a_run_has_not_yet_is_not_known(runs: Path) -> None:
    assert math.isnan(by_name(compare([runs], at_steps=[100]))["ant-shac"].at_steps[100.0])
    assert math.isnan(by_name(compare([runs], at_steps=[50]))["ant-ahac"].at_steps[50.0])


def test_single_runs_are_taken_and_each_once(runs: Path) -> None:
    (group,) = compare([runs / "ant-ahac-0", runs / "ant-ahac-1", runs / "ant-ahac-0"])
    assert group.seeds == (0, 1)
    assert list(group.at_steps) == [400.0]


def test_one_run_has_a_score_and_no_interval(runs: Path) -> None:
    (group,) = compare([runs / "ant-ahac-1"])
    assert (group.evaluated, group.score) == (1, 200.0)
    assert math.isnan(group.low)
    assert math.isnan(group.high)


def test_runs_that_were_not_evaluated_have_no_score(tmp_path: Path) -> None:
    made_run(tmp_path / "a-0", 0, [1.0])
    made_run(tmp_path / "b-0", 0, [1.0], score=4.0)
    made_run(tmp_path / "b-1", 1, [1.0])
    a, b = compare([tmp_path])
    assert (a.evaluated, b.evaluated, b.score) == (0, 1, 4.0)
    assert math.isnan(a.score)


def test_an_evaluation_of_an_earlier_iteration_does_not_count(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "a-0", 0, [1.0, 2.0], score=4.0)
    with (folder / "metrics.csv").open("a", encoding="utf-8") as file:
        file.write("3,300,3,3\n")
    assert compare([folder])[0].evaluated == 0


def test_other_names_are_grouped_by_task_algorithm_and_preset(tmp_path: Path) -> None:
    made_run(tmp_path / "monday", 0, [1.0])
    made_run(tmp_path / "tuesday", 1, [1.0])
    made_run(tmp_path / "h32", 5, [1.0], algo="bptt")
    assert {(g.group, g.seeds) for g in compare([tmp_path])} == {
        ("ant-shac-default", (0, 1)),
        ("ant-bptt-default", (5,)),
    }


def test_a_repeated_seed_counts_once_and_is_pointed_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made_run(tmp_path / "ant-shac-s0", 0, [1.0])
    made_run(tmp_path / "ant-shac-s0-2", 0, [1.0])
    made_run(tmp_path / "ant-shac-s1", 1, [1.0])
    with caplog.at_level(logging.WARNING, "ahac"):
        (group,) = compare([tmp_path])
    assert (group.group, group.seeds, group.runs) == ("ant-shac", (0, 1), 3)
    (warning,) = caplog.messages
    assert warning.startswith("group 'ant-shac' has seed 0 more than once (ant-shac-s0, ant-shac-s0-2): ")


def test_compilation_is_apart_and_not_known_of_runs_of_earlier_versions(tmp_path: Path) -> None:
    for seed, waited in ((0, 4.0), (1, 8.0)):
        folder = made_run(tmp_path / f"new-{seed}", seed, [1.0])
        text = f"iteration,env_steps,seconds,compile_seconds\n1,100,1,{waited / 2}\n2,200,2,{waited}\n"
        (folder / "metrics.csv").write_text(text, encoding="utf-8")
    made_run(tmp_path / "old-0", 0, [1.0])
    new, old = compare([tmp_path])
    assert (new.seconds, new.compile_seconds) == (2.0, 6.0)
    assert math.isnan(old.compile_seconds)
    write_groups(tmp_path / "groups.csv", [new, old])
    assert [row["compile_seconds"] for row in read(tmp_path / "groups.csv")] == ["6.0", "nan"]
    write_runs(tmp_path / "runs.csv", group_runs([tmp_path]))
    assert [row["compile_seconds"] for row in read(tmp_path / "runs.csv")] == ["4", "8", ""]


def test_folders_of_the_same_name_stay_apart(tmp_path: Path) -> None:
    for parent in ("x", "y"):
        made_run(tmp_path / parent / "runs" / "ant-0", 0, [1.0])
    names = [group.group for group in compare([tmp_path / "x" / "runs", tmp_path / "y" / "runs"])]
    assert names == [str(tmp_path / parent / "runs" / "ant") for parent in ("x", "y")]


def test_hidden_folders_are_not_runs(tmp_path: Path) -> None:
    made_run(tmp_path / "a-0", 0, [1.0])
    made_run(tmp_path / ".a.77.tmp", 1, [1.0])
    assert compare([tmp_path])[0].seeds == (0,)


def test_names_cannot_be_formulas_in_a_spreadsheet(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "=HYPERLINK(1)-s0", 0, [-1.5, -2.5])
    made_run(tmp_path / "runs" / "@x\x1b-s0", 0, [-1.5, -2.5], task="hopper")
    groups = group_runs([tmp_path / "runs"])
    write_runs(tmp_path / "runs.csv", groups)
    first, second = read(tmp_path / "runs.csv")
    assert (first["run"], first["group"]) == ("'=HYPERLINK(1)-s0", "'=HYPERLINK(1)")
    assert second["run"] == r"'@x\x1b-s0"
    assert first["return_at_200_steps"] == "-2.5", "numbers stay numbers"
    write_groups(tmp_path / "groups.csv", compare([tmp_path / "runs"]))
    assert [row["group"] for row in read(tmp_path / "groups.csv")] == ["'=HYPERLINK(1)", r"'@x\x1b"]


def test_folders_of_runs_stay_apart(tmp_path: Path) -> None:
    for out, value in (("old", 1.0), ("new", 2.0)):
        made_run(tmp_path / out / "ant-shac-s0", 0, [value])
    groups = compare([tmp_path / "old", tmp_path / "new"])
    assert [(g.group, g.at_steps) for g in groups] == [("old/ant-shac", {100.0: 1.0}), ("new/ant-shac", {100.0: 2.0})]


def test_tasks_have_separate_ends(tmp_path: Path) -> None:
    made_run(tmp_path / "ant-0", 0, [1.0, 2.0])
    made_run(tmp_path / "hopper-0", 0, [1.0], task="hopper")
    assert [list(g.at_steps) for g in compare([tmp_path])] == [[200.0], [100.0]]


def test_a_group_of_different_tasks_is_refused(tmp_path: Path) -> None:
    made_run(tmp_path / "a-0", 0, [1.0])
    made_run(tmp_path / "a-1", 1, [1.0], task="hopper")
    with pytest.raises(InputError, match=r"group 'a' have different tasks.*rename their folders"):
        compare([tmp_path])


def test_a_group_of_different_settings_is_pointed_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made_run(tmp_path / "a-0", 0, [1.0])
    made_run(tmp_path / "a-1", 1, [1.0], num_envs=9)
    with caplog.at_level(logging.WARNING, "ahac"):
        compare([tmp_path])
    assert caplog.messages == ["the runs of group 'a' differ in more than their seeds: num_envs"]


def test_a_run_that_has_not_started_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made_run(tmp_path / "a-0", 0, [])
    made_run(tmp_path / "a-1", 1, [1.0])
    with caplog.at_level(logging.WARNING, "ahac"):
        assert compare([tmp_path])[0].seeds == (1,)
    assert "a-0 is skipped: it has no completed iteration" in caplog.text
    with pytest.raises(InputError, match="none of the runs can be used: a-0: it has no completed iteration"):
        compare([tmp_path / "a-0"])


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is neither a run nor a folder of runs"):
        compare([tmp_path])
    (tmp_path / "config.json").write_text('{"name": "ant"}', encoding="utf-8")
    with pytest.raises(InputError, match="is not the config of a run: it lacks task"):
        compare([tmp_path])
    (tmp_path / "config.json").write_text('{"task', encoding="utf-8")
    with pytest.raises(InputError, match=r"config\.json is damaged or cannot be read"):
        compare([tmp_path])


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_table_is_written_with_all_digits(runs: Path, tmp_path: Path) -> None:
    groups = compare([runs])
    write_groups(tmp_path / "table.csv", groups)
    ahac, shac = read(tmp_path / "table.csv")
    assert (ahac["group"], ahac["seeds"], ahac["score"]) == ("ant-ahac", "0 1", "150.0")
    assert float(shac["score"]) == by_name(groups)["ant-shac"].score
    assert (ahac["return_at_300_steps"], ahac["return_at_3_s"]) == ("26.0", "6.0")


def test_a_table_of_runs_has_their_numbers_by_hand(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "ant-shac-s4", 4, [10.0, 20.0, 31.25], score=7.0)
    lines = [
        "iteration,env_steps,seconds,episode_return,horizon,critic_epochs",
        "1,500000,1,10,8,4",
        "2,1000000,2,20,16,",
        "3,2500000,3.25,31.25,33,9",
    ]
    (folder / "metrics.csv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    write_runs(tmp_path / "runs.csv", group_runs([folder]), [1e6, 2.5e6, 3e6], [0.5, 2])
    assert read(tmp_path / "runs.csv") == [
        {
            "run": "ant-shac-s4",
            "group": "ant-shac",
            "seed": "4",
            "iterations": "3",
            "env_steps": "2500000",
            "seconds": "3.25",
            "compile_seconds": "",
            "horizon_mean": "19",
            "horizon_end": "33",
            "critic_epochs_mean": "6.5",
            "evaluation_mean": "7",
            "evaluation_iqm": "0",
            "return_at_1M_steps": "20",
            "return_at_2.5M_steps": "31.25",
            "return_at_3M_steps": "",
            "return_at_0.5_s": "",
            "return_at_2_s": "20",
        }
    ]


def test_a_table_of_runs_has_the_columns_of_the_results(runs: Path, tmp_path: Path) -> None:
    results = Path(__file__).parents[3] / "docs" / "results" / "hopper.csv"
    write_runs(tmp_path / "runs.csv", group_runs([runs]), [1e6, 2e6, 3e6, 4e6], [30, 60, 75])
    rows = read(tmp_path / "runs.csv")
    assert [row["run"] for row in rows] == [path.name for path in sorted(runs.iterdir())]
    # These results are of a version that did not take the time of compilation apart.
    assert [name for name in rows[0] if name != "compile_seconds"] == list(read(results)[0])
    assert rows[0]["critic_epochs_mean"] == "", "the table has no such column"


def test_tasks_have_separate_columns(tmp_path: Path) -> None:
    made_run(tmp_path / "ant-0", 0, [1.0, 2.0])
    made_run(tmp_path / "hopper-0", 0, [3.0], task="hopper")
    write_runs(tmp_path / "runs.csv", group_runs([tmp_path]))
    ant, hopper = read(tmp_path / "runs.csv")
    assert (ant["return_at_200_steps"], ant["return_at_100_steps"]) == ("2", "")
    assert (hopper["return_at_200_steps"], hopper["return_at_100_steps"]) == ("", "3")
