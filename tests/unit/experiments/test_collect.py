"""Tables of many runs as CSV and Parquet files."""

import csv
import json
import logging
import sys
from pathlib import Path

import pytest

from ahac.core.errors import InputError
from ahac.experiments.collect import KEYS, archive_runs, write_table
from support.run_folders import write_run


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    write_run(folder / "ant-shac-s0", returns=[None, 0.1, 1e-7], score=5.0)
    write_run(folder / "hopper-ppo-s3", 3, task="hopper", algo="ppo", returns=[2.0], algorithm={"gamma": 0.9})
    metrics = "iteration,env_steps,seconds,clip_fraction\n1,10,0.5,0.25\n"
    (folder / "hopper-ppo-s3" / "metrics.csv").write_text(metrics, encoding="utf-8")
    return folder


def test_a_row_per_run_and_iteration(runs: Path, tmp_path: Path) -> None:
    assert write_table([runs], tmp_path / "a.csv") == 4
    text = (tmp_path / "a.csv").read_text(encoding="utf-8")
    assert text.splitlines() == [
        "run,task,algo,preset,seed,iteration,env_steps,seconds,episode_return,clip_fraction",
        "ant-shac-s0,ant,shac,default,0,1,100,2.0,,",
        "ant-shac-s0,ant,shac,default,0,2,200,4.0,0.1,",
        "ant-shac-s0,ant,shac,default,0,3,300,6.0,1e-07,",
        "hopper-ppo-s3,hopper,ppo,default,3,1,10,0.5,,0.25",
    ]


@pytest.mark.parametrize(("every", "kept"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (5, [5]), (9, [5])])
def test_every_nth_iteration_and_the_last_one(tmp_path: Path, every: int, kept: list[int]) -> None:
    write_run(tmp_path / "runs" / "a-s0", returns=[1.0, 2.0, 3.0, 4.0, 5.0])
    assert write_table([tmp_path / "runs"], tmp_path / "a.csv", every=every) == len(kept)
    assert [(int(row["iteration"]), float(row["episode_return"])) for row in read(tmp_path / "a.csv")] == [
        (iteration, iteration) for iteration in kept
    ]


def test_every_zeroth_iteration_is_refused(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="every must be a whole number of at least 1, got 0"):
        write_table([runs], tmp_path / "a.csv", every=0)
    with pytest.raises(InputError, match="every must be a whole number of at least 1, got 0"):
        archive_runs([runs], tmp_path / "a.tar.xz", every=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]


def test_a_row_per_run_with_evaluation_and_settings(runs: Path, tmp_path: Path) -> None:
    assert write_table([runs], tmp_path / "a.csv", final=True) == 2
    ant, hopper = read(tmp_path / "a.csv")
    assert list(ant)[:9] == [*KEYS, "complete", "iteration", "env_steps", "seconds"]
    assert (ant["complete"], ant["iteration"], ant["env_steps"], ant["episode_return"]) == ("true", "3", "300", "1e-07")
    assert (ant["evaluation.mean"], ant["evaluation.low"], ant["evaluation.episodes"]) == ("5.0", "4.0", "8")
    assert (hopper["complete"], hopper["evaluation.mean"], hopper["episode_return"]) == ("false", "", "")
    assert (ant["settings.iterations"], hopper["settings.algorithm.gamma"]) == ("3", "0.9")
    assert ant["settings.algorithm.gamma"] == ""
    assert not [name for name in ant if name in ("settings.task", "settings.seed")], "they are keys"


def test_lists_in_settings_are_json(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a-s0", algorithm={"actor": {"hidden": [64, 32], "bias": None}})
    write_table([tmp_path / "runs"], tmp_path / "a.csv", final=True)
    (row,) = read(tmp_path / "a.csv")
    assert json.loads(row["settings.algorithm.actor.hidden"]) == [64, 32]
    assert row["settings.algorithm.actor.bias"] == ""


def test_runs_of_the_same_name_have_their_path(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write_run(tmp_path / folder / "ant-s0", returns=[1.0])
    write_run(tmp_path / "b" / "ant-s1", 1, returns=[1.0])
    write_table([tmp_path / "a", tmp_path / "b", tmp_path / "b" / "ant-s1"], tmp_path / "a.csv")
    assert [row["run"] for row in read(tmp_path / "a.csv")] == [
        str(tmp_path / "a" / "ant-s0"), str(tmp_path / "b" / "ant-s0"), "ant-s1",
    ]  # fmt: skip


def test_a_metric_that_is_named_like_a_key_keeps_its_values(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "ant-s0", returns=[1.0])
    (run / "metrics.csv").write_text("iteration,env_steps,seconds,seed\n1,10,0.5,7\n", encoding="utf-8")
    write_table([tmp_path / "runs"], tmp_path / "a.csv")
    (row,) = read(tmp_path / "a.csv")
    assert (row["seed"], row["metrics.seed"]) == ("0", "7.0")


def test_large_counts_are_exact(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "ant-s0", returns=[1.0])
    (run / "metrics.csv").write_text(f"iteration,env_steps,seconds\n1,{2**70},0.5\n", encoding="utf-8")
    write_table([tmp_path / "runs"], tmp_path / "a.csv")
    assert read(tmp_path / "a.csv")[0]["env_steps"] == str(2**70)


def test_columns_are_in_the_order_of_metrics_csv_even_if_the_first_row_lacks_some(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "ant-s0")
    metrics = "iteration,env_steps,episode_return,seconds,horizon\n1,10,,0.5,16\n2,20,3,1.0,\n3,30,4,1.5,16\n"
    (run / "metrics.csv").write_text(metrics, encoding="utf-8")
    write_table([tmp_path / "runs"], tmp_path / "a.csv")
    assert list(read(tmp_path / "a.csv")[0])[len(KEYS) :] == metrics.partition("\n")[0].split(",")


def test_names_are_safe_in_spreadsheets(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "=1+2-s0", returns=[1.0])
    write_run(tmp_path / "runs" / "\x1b\udcff-s0", returns=[1.0])
    write_table([tmp_path / "runs"], tmp_path / "a.csv")
    assert sorted(row["run"] for row in read(tmp_path / "a.csv")) == ["'=1+2-s0", r"\x1b\udcff-s0"]


def test_unusable_runs_are_skipped_with_a_warning(runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_run(runs / "z-s0", returns=[])
    (runs / "ant-shac-s0" / "evaluation.json").write_text("[", encoding="utf-8")
    with caplog.at_level(logging.WARNING, "ahac"):
        assert write_table([runs], tmp_path / "a.csv") == 1
    assert "z-s0 is skipped: it has no completed iteration" in caplog.text
    assert "ant-shac-s0 is skipped" in caplog.text
    (runs / "hopper-ppo-s3" / "config.json").write_text("[", encoding="utf-8")
    with pytest.raises(InputError, match=r"none of the runs can be used: ant-shac-s0: .*; and 2 more"):
        write_table([runs], tmp_path / "b.csv")
    assert not (tmp_path / "b.csv").exists()


def test_folders_without_runs_and_other_formats_are_refused(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="neither a run nor a folder of runs"):
        write_table([tmp_path / "empty"], tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"must be a \.csv or \.parquet file, got .*a\.xlsx'; change the suffix"):
        write_table([runs], tmp_path / "a.xlsx")


def test_parquet_without_pyarrow_names_the_command_that_installs_it(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"need pyarrow, .*: pip install 'ahac\[report\]', or write a \.csv file"):
        write_table([runs], tmp_path / "a.parquet")


def test_parquet_has_the_same_rows_with_types(runs: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install pyarrow")
    assert write_table([runs], tmp_path / "a.parquet") == 4
    table = parquet.read_table(tmp_path / "a.parquet")
    assert {name: str(table.schema.field(name).type) for name in table.column_names} == {
        **dict.fromkeys(("run", "task", "algo", "preset"), "string"),
        **dict.fromkeys(("seed", "iteration", "env_steps"), "int64"),
        **dict.fromkeys(("seconds", "episode_return", "clip_fraction"), "double"),
    }
    assert table.column("episode_return").to_pylist() == [None, 0.1, 1e-7, None]
    assert table.column("seed").to_pylist() == [0, 0, 0, 3]


def test_parquet_of_numbers_that_no_run_has(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install pyarrow")
    write_run(tmp_path / "runs" / "ant-s0", returns=[1.0])
    write_table([tmp_path / "runs"], tmp_path / "a.parquet", final=True)
    schema = parquet.read_table(tmp_path / "a.parquet").schema
    assert {str(schema.field(name).type) for name in ("compile_seconds", "evaluation.mean")} == {"double"}


def test_parquet_of_settings_that_differ_in_type(runs: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install pyarrow")
    write_run(runs / "=x-s0", mixed="auto", number=1, flag=True, big=2**70)
    write_run(runs / "\udcff-s0", mixed=3, number=0.5, flag=False, big=1)
    assert write_table([runs], tmp_path / "a.parquet", final=True) == 4
    table = parquet.read_table(tmp_path / "a.parquet")
    rows = {row["run"]: row for row in table.to_pylist()}
    assert set(rows) == {"=x-s0", r"\udcff-s0", "ant-shac-s0", "hopper-ppo-s3"}, "no apostrophe, unlike in CSV files"
    names = [f"settings.{name}" for name in ("mixed", "number", "flag", "big")]
    assert [rows["=x-s0"][name] for name in names] == ["auto", 1.0, True, str(2**70)]
    assert [rows[r"\udcff-s0"][name] for name in names] == ["3", 0.5, False, "1"]
    assert [rows["ant-shac-s0"][name] for name in names] == [None] * 4
    assert rows["ant-shac-s0"]["complete"] is True
