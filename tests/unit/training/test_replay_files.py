"""Replay buffer on disk: written once, read back bit-exactly, and consistent wherever a process ends."""

from pathlib import Path

import pytest
import torch

from ahac.algos.parts.replay import Replay
from ahac.training import replay_files
from ahac.training.checkpoint import CheckpointError
from ahac.training.replay_files import ReplayFiles

ROW = 2 * 3 * 4
"""Bytes of a row."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_files, "SEGMENT", 4 * ROW)


def replay(length: int = 10, spare: int = 5) -> Replay:
    return Replay({"x": 3}, 2, buffer_size=2 * length, spare=spare, device=torch.device("cpu"), dtype=torch.float32)


def add(to: Replay, rows: int, seed: int = 0) -> None:
    for _ in range(rows):
        to.add(x=torch.randn(2, 3, generator=torch.Generator().manual_seed(1000 * seed + to.added)))


def names(folder: Path) -> list[str]:
    return sorted(path.name.removeprefix("rows-").removesuffix(".safetensors") for path in folder.iterdir())


def assert_loads(folder: Path, wanted: Replay, added: int) -> None:
    found = replay()
    ReplayFiles(folder, found).load(added)
    first = max(added - wanted.length, 0)
    assert found.added == added
    assert torch.equal(found.rows(first, added), wanted.rows(first, added))


def test_it_comes_back_after_every_save(tmp_path: Path) -> None:
    made = replay()
    files = ReplayFiles(tmp_path, made)
    for _ in range(12):
        add(made, 3)
        files.save(made.added)
        assert_loads(tmp_path, made, made.added)
        files.prune(made.added)
        assert_loads(tmp_path, made, made.added)


def test_only_new_rows_are_written_and_old_ones_removed(tmp_path: Path) -> None:
    made = replay()
    files = ReplayFiles(tmp_path, made)
    add(made, 6)
    files.save(6)
    assert names(tmp_path) == ["0000000000-0000000004", "0000000004-0000000006"]
    times = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    add(made, 3)
    files.save(9)
    files.prune(9)
    assert names(tmp_path) == ["0000000000-0000000004", "0000000004-0000000006", "0000000006-0000000009"]
    assert all((tmp_path / name).stat().st_mtime_ns == time for name, time in times.items())
    add(made, 5)
    files.save(14)
    files.prune(14)
    assert "0000000000-0000000004" not in names(tmp_path)


def test_a_ring_that_went_round_between_saves_is_written_as_it_is(tmp_path: Path) -> None:
    made = replay()
    files = ReplayFiles(tmp_path, made)
    add(made, 4)
    files.save(4)
    add(made, 40)
    files.save(44)
    assert_loads(tmp_path, made, 44)


def test_the_checkpoint_before_can_be_read_until_the_next_is_in_place(tmp_path: Path) -> None:
    made = replay()
    files = ReplayFiles(tmp_path, made)
    add(made, 12)
    files.save(12)
    files.prune(12)
    before = replay()
    add(before, 12)
    add(made, 9)
    files.save(21)  # and the process ends here
    assert_loads(tmp_path, before, 12)


def test_rows_of_a_process_that_ended_before_its_checkpoint_are_replaced(tmp_path: Path) -> None:
    made = replay()
    files = ReplayFiles(tmp_path, made)
    add(made, 5)
    files.save(5)
    add(made, 3)
    files.save(8)  # whose checkpoint never came to be
    again = replay()
    resumed = ReplayFiles(tmp_path, again)
    resumed.load(5)
    add(again, 6, seed=1)
    resumed.save(11)
    assert_loads(tmp_path, again, 11)


def test_an_iteration_in_progress_is_left_out(tmp_path: Path) -> None:
    """After a crash, the state of the last completed iteration is saved although more rows were added since."""
    made, wanted = replay(), replay()
    files = ReplayFiles(tmp_path, made)
    add(made, 23)
    add(wanted, 23)
    add(made, 5)
    files.save(23)
    assert_loads(tmp_path, wanted, 23)


def test_what_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    made = replay()
    files = ReplayFiles(tmp_path, made)
    add(made, 8)
    files.save(8)
    second = tmp_path / "rows-0000000004-0000000008.safetensors"
    whole = second.read_bytes()
    second.write_bytes(whole[:40])
    with pytest.raises(CheckpointError, match=r"rows-0000000004-0000000008\.safetensors is damaged"):
        ReplayFiles(tmp_path, replay()).load(8)
    second.unlink()
    with pytest.raises(CheckpointError, match="lacks rows 4 to 8 of the replay buffer: the run cannot be resumed"):
        ReplayFiles(tmp_path, replay()).load(8)
    other = Replay({"x": 3}, 3, buffer_size=30, spare=5, device=torch.device("cpu"), dtype=torch.float32)
    with pytest.raises(CheckpointError, match=r"another run: .*\[3, 3\], got \[2, 3\]"):
        ReplayFiles(tmp_path, other).load(4)


def test_rewinding_into_the_middle_of_a_segment_loses_no_row(tmp_path: Path) -> None:
    made = replay()
    files = ReplayFiles(tmp_path, made)
    add(made, 7)
    files.save(7)
    again = replay()
    files = ReplayFiles(tmp_path, again)
    files.load(5)  # of rows 4 to 7
    add(again, 1, seed=1)
    files.save(6)
    assert_loads(tmp_path, again, 6)


def test_rows_of_another_run_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = replay()
    add(made, 2)
    ReplayFiles(tmp_path, made, "ant, sac, seed 0").save(2)
    ReplayFiles(tmp_path, replay(), "ant, sac, seed 0").load(2)
    assert not caplog.messages
    ReplayFiles(tmp_path, replay(), "ant, sac, seed 1").load(2)
    assert "written by another run (ant, sac, seed 0; this one is ant, sac, seed 1)" in caplog.text


def test_flipped_bits_and_renamed_segments_are_refused(tmp_path: Path) -> None:
    made = replay()
    add(made, 4)
    ReplayFiles(tmp_path, made).save(4)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    path.write_bytes(content[:-3] + bytes([content[-3] ^ 4]) + content[-2:])
    with pytest.raises(CheckpointError, match="checksum"):
        ReplayFiles(tmp_path, replay()).load(4)
    path.write_bytes(content)
    path.rename(tmp_path / "rows-0000000000-0000000005.safetensors")
    with pytest.raises(CheckpointError, match=r"must hold rows of .*\[5, ...\], got .*\[4, 2, 3\]"):
        ReplayFiles(tmp_path, replay()).load(5)


def test_a_renamed_segment_is_refused(tmp_path: Path) -> None:
    made = replay()
    add(made, 8)
    ReplayFiles(tmp_path, made).save(8)
    first, second = sorted(tmp_path.iterdir())
    second.replace(first)
    with pytest.raises(CheckpointError, match="was renamed: its first row is 4"):
        ReplayFiles(tmp_path, replay()).load(4)
