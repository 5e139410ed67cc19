"""Which runs folders hold, and which of them are left out."""

import logging
from pathlib import Path

import pytest

from ahac.core.errors import InputError
from ahac.experiments.run_sets import RunSet, list_runs
from support.run_folders import write_run


def test_runs_are_listed_once(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "ant-s0")
    (tmp_path / "link").symlink_to(run)
    assert list_runs([tmp_path / "runs", run, tmp_path / "link"]) == [run]


def test_links_keep_their_names_which_decide_the_groups(tmp_path: Path) -> None:
    for name in ("x1/ant-s0", "x2/other"):
        write_run(tmp_path / name)
    (tmp_path / "chosen").mkdir()
    links = [tmp_path / "chosen" / f"ant-s{seed}" for seed in (0, 1)]
    for link, name in zip(links, ("x1/ant-s0", "x2/other"), strict=True):
        link.symlink_to(tmp_path / name)
    assert list_runs([tmp_path / "chosen", tmp_path / "x1" / ".." / "x1"]) == links
    (tmp_path / "x2" / "other" / "inner").mkdir()
    assert list_runs([tmp_path / "x2" / "other" / "inner" / ".."]) == [tmp_path / "x2" / "other"]


def test_runs_further_down_are_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = write_run(tmp_path / "ant-s0")
    deeper = write_run(tmp_path / "study" / "ant-s0")
    write_run(tmp_path / ".hidden" / "ant-s0")
    with caplog.at_level(logging.WARNING, "ahac"):
        assert list_runs([tmp_path]) == [run]
    (message,) = caplog.messages
    assert message == f"not included, as they are further down: the runs in {deeper.parent}; name these folders"
    caplog.clear()
    assert list_runs([tmp_path, tmp_path / "study"]) == [run, deeper]
    assert list_runs([run]) == [run]
    assert not caplog.messages


def test_a_folder_of_folders_of_runs_is_refused_with_their_names(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "study" / "ant-s0")
    with pytest.raises(InputError, match=r"runs is neither a run nor .*; it holds folders of runs, .*runs/study"):
        list_runs([tmp_path / "runs"])
    with pytest.raises(InputError, match=r"there is no config\.json in it or one level below$"):
        list_runs([tmp_path / "nowhere"])
    with pytest.raises(InputError, match="expected at least one run folder, folder of runs or archive, got none"):
        list_runs([])


def test_runs_that_cannot_be_used_are_kept_with_the_reason(tmp_path: Path) -> None:
    good = write_run(tmp_path / "a-s0")
    empty = write_run(tmp_path / "a-s1", 1, returns=[])
    runs = RunSet([tmp_path])
    for _ in range(2):  # reading again starts anew
        assert [run.folder for run in runs.read()] == [good]
        assert runs.skipped == {empty: "it has no completed iteration"}


def test_columns_are_selected(tmp_path: Path) -> None:
    write_run(tmp_path / "a-s0", returns=[5.0])
    (run,) = RunSet([tmp_path], ["seconds", "unknown"]).read()
    assert run.rows == [{"iteration": 1.0, "env_steps": 100.0, "seconds": 2.0}]
