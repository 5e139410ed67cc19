"""Lost, damaged and leftover files: nothing is dropped silently, and no run starts over by itself."""

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import save_file

from ahac.cli.main import main
from ahac.core.files import HOST, WriteError
from ahac.training import create
from ahac.training import run as run_module
from ahac.training.checkpoint import CheckpointError, load_checkpoint
from ahac.training.run import Run, create_run, open_run
from ahac.training.trainer import train
from support.small_runs import small_config, state, table


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = create_run(small_config(tmp_path_factory.mktemp("runs"), name="whole", iterations=8, checkpoint_every=2))
    train(run, display=False)
    return run


@pytest.fixture
def half(whole: Run, tmp_path: Path) -> Run:
    """The same run, stopped after iteration 5."""
    run = create_run(small_config(tmp_path, name="half", iterations=8, checkpoint_every=2))
    train(run, 5, display=False)
    return open_run(run.folder)


def finish_like(whole: Run, folder: Path) -> None:
    assert train(open_run(folder), display=False)
    assert state(folder) == state(whole.folder)
    assert table(folder) == table(whole.folder)


def test_the_last_checkpoint_is_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[str] = []
    honest = run_module.save_checkpoint

    def noted(path: Path, checkpoint: run_module.Checkpoint) -> None:
        saved.append(path.stem)
        honest(path, checkpoint)

    monkeypatch.setattr(run_module, "save_checkpoint", noted)
    train(create_run(small_config(tmp_path, iterations=4, checkpoint_every=2)), display=False)
    assert saved[0] == "last", "before the first iteration"
    assert [name for name in saved[1:] if name != "best"] == [
        "iteration-000002",
        "last",
        "iteration-000004",
        "last",
        "last",
    ]
    assert all(name == "iteration" for name in [saved[i + 1][:9] for i, name in enumerate(saved) if name == "best"])


@pytest.mark.parametrize("link", [False, True])
def test_a_run_without_its_last_checkpoint_does_not_start_over(link: bool, half: Run) -> None:
    last = half.path_of("last")
    last.unlink()
    if link:
        last.symlink_to("gone.safetensors")
    before = table(half.folder)
    with pytest.raises(
        CheckpointError, match=r"(best, )?iteration-000002.*5 rows.*ahac resume .* --checkpoint iteration-000004"
    ) as error:
        train(half, display=False)
    assert "iteration-000004" in str(error.value)
    assert table(half.folder) == before


def test_rows_without_any_checkpoint_do_not_start_over(half: Run) -> None:
    for name in half.checkpoint_names():
        half.path_of(name).unlink()
    with pytest.raises(CheckpointError, match=r"no other checkpoint and 5 rows.*remove .*metrics\.csv"):
        train(half, display=False)


def test_resuming_from_an_earlier_checkpoint_gives_the_same_run(whole: Run, half: Run) -> None:
    half.path_of("last").unlink()
    assert main(["resume", str(half.folder), "--checkpoint", "iteration-000002"]) == 0
    assert state(half.folder) == state(whole.folder)
    assert table(half.folder) == table(whole.folder)


def test_rewinding_keeps_the_replaced_files(half: Run, caplog: pytest.LogCaptureFixture) -> None:
    last, rows = state(half.folder), table(half.folder)
    with caplog.at_level(logging.WARNING, "ahac"):
        half.rewind_to("iteration-000002")
    assert state(half.folder)["iteration"] == 2
    assert state(half.folder, "last.replaced-1") == last
    assert not (half.folder / "evaluation.json").exists()
    kept = half.folder / "metrics.replaced-1.csv"
    assert len(kept.read_text(encoding="utf-8").splitlines()) == len(rows) + 1
    assert "kept" in caplog.text


def test_rewinding_to_an_unknown_checkpoint_changes_nothing(half: Run, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name: path.read_bytes() for path in half.checkpoints.iterdir()}
    assert main(["resume", str(half.folder), "--checkpoint", "iteration-9"]) == 2
    assert "has no checkpoint 'iteration-9'; it has: " in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in half.checkpoints.iterdir()} == before


def test_a_damaged_last_checkpoint_names_the_others(half: Run) -> None:
    content = half.path_of("last").read_bytes()
    half.path_of("last").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=r"checksum.*try --checkpoint with one of: .*iteration-000004"):
        train(half, display=False)


def test_files_of_killed_processes_are_removed(half: Run) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    old = [
        half.folder / f".metrics.ahac-{HOST}-{dead.pid}.tmp.csv",
        half.checkpoints / f".last.{dead.pid}.tmp.safetensors",  # as version 0.1.0 named them
    ]
    alive = half.folder / f".evaluation.ahac-{HOST}-{os.getppid()}.tmp.json"  # some other process still writes it
    for path in (*old, alive):
        path.touch()
    train(half, display=False)
    assert not any(path.exists() for path in old)
    assert alive.exists()


def damage_header(text: str) -> str:
    return text.replace("iteration", "itdration", 1)


def damage_row(text: str) -> str:
    lines = text.splitlines(keepends=True)
    lines[2] = lines[2].replace(",", ";", 1)
    return "".join(lines)


def damage_number(text: str) -> str:
    lines = text.splitlines(keepends=True)
    lines[1] = lines[1].replace(".0,", "1.0,", 2).replace("1.0,", ".0,", 1)
    return "".join(lines)


def drop_row(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:2], *lines[3:]])


def double_row(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:2], *lines[1:]])


def swap_rows(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([lines[0], lines[2], lines[1], *lines[3:]])


@pytest.mark.parametrize("damage", [damage_header, damage_row, damage_number, drop_row, double_row, swap_rows])
def test_a_damaged_table_is_kept_next_to_the_new_one(damage, half: Run, caplog: pytest.LogCaptureFixture) -> None:  # noqa: ANN001
    path = half.folder / "metrics.csv"
    broken = damage(path.read_text(encoding="utf-8"))
    path.write_text(broken, encoding="utf-8")
    with caplog.at_level(logging.WARNING, "ahac"):
        assert train(half, display=False)
    assert (half.folder / "metrics.damaged-1.csv").read_text(encoding="utf-8") == broken
    assert "the old file is kept as metrics.damaged-1.csv" in caplog.text
    assert [row["iteration"] for row in table(half.folder)][-3:] == ["6.0", "7.0", "8.0"]


def test_a_missing_table_is_reported(half: Run, caplog: pytest.LogCaptureFixture) -> None:
    (half.folder / "metrics.csv").unlink()
    with caplog.at_level(logging.WARNING, "ahac"):
        assert train(half, display=False)
    assert "is missing: the rows of 5 iterations are lost" in caplog.text


def test_a_setting_that_was_changed_since_the_checkpoint_is_reported(
    half: Run, caplog: pytest.LogCaptureFixture
) -> None:
    path = half.folder / "config.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"gamma": 0.99', '"gamma": 0.9'), encoding="utf-8")
    with caplog.at_level(logging.WARNING, "ahac"):
        train(open_run(half.folder), display=False)
    assert "algorithm.gamma was 0.99, is 0.9" in caplog.text


def test_settings_that_a_command_replaces_are_not_reported_as_changed(
    half: Run, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "ahac"):
        open_run(half.folder).with_settings(num_envs=1).restore("last", with_env=False)
    assert not caplog.messages
    path = half.folder / "config.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"gamma": 0.99', '"gamma": 0.9'), encoding="utf-8")
    with caplog.at_level(logging.WARNING, "ahac"):
        open_run(half.folder).with_settings(num_envs=1).restore("last", with_env=False)
    assert caplog.messages[-1].endswith("config.json: algorithm.gamma was 0.99, is 0.9")


def test_a_resumed_run_reports_no_changed_setting(whole: Run, half: Run, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ahac"):
        finish_like(whole, half.folder)
    assert caplog.messages == []


def test_eval_shows_its_result_even_if_it_cannot_be_saved(
    half: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise WriteError("cannot write 'evaluation.json': Read-only file system; choose a writable folder")

    monkeypatch.setattr(Run, "save_evaluation", refuse)
    with caplog.at_level(logging.WARNING, "ahac"):
        assert main(["eval", str(half.folder)]) == 0
    assert "4 episodes: mean" in capsys.readouterr().out
    assert "could not save the result in the run folder: cannot write 'evaluation.json'" in caplog.text


def test_a_run_appears_with_its_config_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(create, "config_to_file", killed)
    with pytest.raises(KeyboardInterrupt):
        create_run(small_config(tmp_path, name="a"))
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_of_that_name_is_used(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert create_run(small_config(tmp_path, name="a")).folder == tmp_path / "a"
    assert create_run(small_config(tmp_path, name="a")).folder == tmp_path / "a-2"


def interrupt_writing(name: str, patch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    """Send a signal twice in the middle of writing the checkpoint of this name, after the second iteration."""
    honest, sent = run_module.save_checkpoint, []

    def save(path: Path, checkpoint: run_module.Checkpoint) -> None:
        if path.stem == name and checkpoint.numbers["iteration"] >= 2 and not sent:
            sent.append(name)
            signal.raise_signal(number)
            signal.raise_signal(number)
        honest(path, checkpoint)

    patch.setattr(run_module, "save_checkpoint", save)


@pytest.mark.usefixtures("hangup_is_heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("name", ["iteration-000004", "last"])
def test_signals_wait_until_checkpoints_are_written(
    name: str, number: signal.Signals, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(small_config(tmp_path, name="half", iterations=8, checkpoint_every=2))
    with monkeypatch.context() as patch:
        interrupt_writing(name, patch, number)
        try:
            assert not train(run, display=False)
        except KeyboardInterrupt:
            assert number != signal.SIGHUP
    assert state(run.folder)["iteration"] == len(table(run.folder))
    finish_like(whole, run.folder)
    assert run.checkpoint_names() == whole.checkpoint_names()


def test_a_checkpoint_that_could_not_be_written_is_not_forgotten(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(small_config(tmp_path, name="half", iterations=8, checkpoint_every=2))
    honest = run_module.save_checkpoint

    def save(path: Path, checkpoint: run_module.Checkpoint) -> None:
        if path.stem == "iteration-000004":
            raise WriteError("cannot write 'iteration-000004.safetensors': No space left on device")
        honest(path, checkpoint)

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "save_checkpoint", save)
        with pytest.raises(WriteError):
            train(run, display=False)
    finish_like(whole, run.folder)
    assert run.checkpoint_names() == whole.checkpoint_names()


def test_a_table_that_lost_rows_is_reported_once(half: Run, caplog: pytest.LogCaptureFixture) -> None:
    (half.folder / "metrics.csv").unlink()
    with caplog.at_level(logging.WARNING, "ahac"):
        train(half, 6, display=False)
        assert len(caplog.messages) == 1
        train(open_run(half.folder), 7, display=False)
    assert len(caplog.messages) == 1
    assert not (half.folder / "metrics.damaged-1.csv").exists()


def test_a_missing_config_is_written_again(whole: Run, half: Run) -> None:
    (half.folder / "config.json").unlink()
    finish_like(whole, half.folder)
    assert (half.folder / "config.json").is_file()
    assert open_run(half.folder).config == half.config


def test_a_length_that_is_refused_changes_nothing(half: Run) -> None:
    before = {path.name: path.read_bytes() for path in half.checkpoints.iterdir()}
    assert main(["resume", str(half.folder), "--checkpoint", "iteration-000004", "--iterations", "3"]) == 2
    assert {path.name: path.read_bytes() for path in half.checkpoints.iterdir()} == before


def test_foreign_files_in_the_folder_of_runs_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".backup.4000001.tmp").mkdir()
    (tmp_path / ".backup.4000001.tmp" / "thesis.txt").touch()
    (tmp_path / f".mine.ahac-{HOST}-4000001.tmp").mkdir()
    (tmp_path / f".mine.ahac-{HOST}-4000001.tmp" / "notes.txt").touch()
    (tmp_path / f".run.ahac-{HOST}-4000001.tmp").mkdir()
    (tmp_path / f".run.ahac-{HOST}-4000001.tmp" / "config.json").touch()
    create_run(small_config(tmp_path, name="a"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".backup.4000001.tmp",
        f".mine.ahac-{HOST}-4000001.tmp",
        "a",
    ]


def test_a_link_to_an_empty_folder_is_not_used_for_a_run(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "a").symlink_to(tmp_path / "empty")
    assert create_run(small_config(tmp_path, name="a")).folder == tmp_path / "a-2"


NUMBERS = [{"failures": 10**400}, {"failures": float("inf")}, {"compile_seconds": float("inf")}, {"best": float("inf")}]


@pytest.mark.parametrize("change", NUMBERS, ids=lambda change: "-".join(change))
def test_impossible_numbers_are_refused(change: dict[str, float], half: Run) -> None:
    path = half.path_of("last")
    saved = load_checkpoint(path)
    save_file(dict(saved.tensors), path, metadata={"version": "1", "numbers": json.dumps({**saved.numbers, **change})})
    with pytest.raises(CheckpointError, match=next(iter(change))):
        train(half, display=False)
