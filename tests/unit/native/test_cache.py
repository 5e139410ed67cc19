"""The kernel cache on disk: checksums, locks, leftovers of killed processes, and unwritable folders."""

import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ahac.native import cache
from ahac.native.cache import Module, check, contents, discard, exclusive, record, unwritable

NAME = "wp_toy_0123abc"
FILES = {f"{NAME}.cpp": b"int x;\n" * 20, f"{NAME}.cpu01.o": bytes(range(256)) * 4, f"{NAME}.meta": b'{"x": 0}'}


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """Folder of a module as Warp writes it, without checksums."""
    folder = tmp_path / NAME
    folder.mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    return folder


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "truncated": truncate,
    "empty": lambda file: file.write_bytes(b""),
    "zeroed": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "flipped bit": flip_a_bit,
    "missing": Path.unlink,
}


def test_a_recorded_module_is_good_and_stays_good(module: Path) -> None:
    assert check(module) is Module.UNCHECKED
    record(module)
    written = (module / cache.CHECKSUMS).read_bytes()
    record(module)
    assert check(module) is Module.GOOD
    assert (module / cache.CHECKSUMS).read_bytes() == written


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
@pytest.mark.parametrize("name", [*FILES, cache.CHECKSUMS])
def test_damage_to_any_file_is_noticed(module: Path, name: str, damage: Callable[[Path], object]) -> None:
    record(module)
    damage(module / name)
    assert check(module) is not Module.GOOD


def test_a_file_in_place_of_the_folder_is_damage_and_can_be_discarded(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    folder.write_bytes(b"")
    assert check(folder) is Module.DAMAGED
    discard(folder)
    assert check(folder) is Module.ABSENT
    assert not list(tmp_path.iterdir())


def test_a_file_for_another_cpu_keeps_the_checksums_of_the_others(module: Path) -> None:
    record(module)
    flip_a_bit(module / f"{NAME}.meta")
    (module / f"{NAME}.cpu02.o").write_bytes(b"other")
    record(module)
    assert check(module) is Module.DAMAGED, "recording new files must not vouch for damaged ones"


def test_foreign_files_in_the_folder_are_ignored(module: Path) -> None:
    record(module)
    (module / ".DS_Store").write_bytes(b"x")
    assert check(module) is Module.GOOD


def locked_elsewhere(folder: Path) -> bool:
    lock = os.open(folder.parent / cache.LOCKS / folder.name, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def test_only_one_process_compiles_a_module(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with exclusive(module):
        assert locked_elsewhere(module)
        monkeypatch.setattr(cache, "LOCK_TIMEOUT", 0.0)
        with exclusive(module):  # a process that hangs does not block others forever
            pass
        assert locked_elsewhere(module)
    assert not locked_elsewhere(module)


def test_a_cache_without_locks_works(module: Path) -> None:
    (module.parent / cache.LOCKS).write_bytes(b"a file, so that no lock can be made")
    with exclusive(module):
        assert check(module) is Module.UNCHECKED


def test_leftovers_of_killed_processes_are_removed_and_others_stay(module: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    killed, running = (module.with_name(f"{NAME}_p{pid}_t140") for pid in (ended.pid, os.getpid()))
    other = module.with_name(f"wp_another_0123abc_p{ended.pid}_t140")
    for folder in (killed, running, other):
        folder.mkdir()
        (folder / f"{NAME}.cpp").write_bytes(b"half")
    with exclusive(module):
        pass
    assert not killed.exists()
    assert running.exists()
    assert other.exists()
    assert module.exists()


def test_free_space_is_checked_by_writing(tmp_path: Path) -> None:
    assert unwritable(tmp_path, 2**20) is None
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, hard))  # simulates a full disk
    try:
        reason = unwritable(tmp_path, 2**20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert reason == "File too large"
    assert not list(tmp_path.iterdir())


def test_a_file_in_place_of_the_cache_is_unwritable(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"")
    assert unwritable(tmp_path / "cache", 0) == "File exists"
    assert unwritable(tmp_path / "cache" / "1.19.0", 0) == "Not a directory"


def test_contents_lists_our_modules_and_counts_all_bytes(module: Path) -> None:
    record(module)
    module.with_name("wp_toy_old").mkdir()
    module.with_name(f"{NAME}_p1_t2").mkdir()
    module.with_name("wp_foreign").mkdir()
    (module.with_name("wp_foreign") / "data").write_bytes(b"12345")
    cached = contents(module.parent, ("wp_toy_",), 0)
    assert cached.modules == {NAME: Module.GOOD, "wp_toy_old": Module.UNCHECKED}
    assert cached.size == sum(map(len, FILES.values())) + (module / cache.CHECKSUMS).stat().st_size + 5
    assert cached.problem is None
