"""The kernel cache: verifies every file before it is loaded, and lets one process at a time compile a kernel.

Warp keeps each compiled module in a separate folder. After a module has been loaded, a file with the checksums of the
other files is added. A module whose files do not match is removed and compiled again: an object file with a flipped bit
may crash the process or compute wrong results.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ahac.core.files import process_alive

try:
    import fcntl
except ImportError:  # Windows has no fcntl: two processes may compile the same kernel, which Warp allows
    fcntl = None

__all__ = ["Contents", "Module", "check", "contents", "discard", "exclusive", "record", "unwritable"]

CHECKSUMS = "ahac.sha256"
"""File in a module's folder with the checksums of its files, in the format of `sha256sum -c`."""
LOCKS = "ahac_locks"
LOCK_TIMEOUT = 120.0
"""Seconds to wait for another process that compiles the same kernel, before compiling it here as well."""
POLL = 0.02
"""Seconds between two attempts to acquire a lock."""


class Module(Enum):
    """State of a module's folder in the cache."""

    ABSENT = "absent"
    GOOD = "good"
    UNCHECKED = "unchecked"
    """Some files have no checksum: compiled by an older version, or the process was killed before it wrote them."""
    DAMAGED = "damaged"


def check(folder: Path) -> Module:
    """Compare the files of a module with their checksums."""
    if not folder.is_dir():
        return Module.DAMAGED if folder.exists() or folder.is_symlink() else Module.ABSENT
    try:
        if not (folder / CHECKSUMS).exists():
            return Module.UNCHECKED
        expected = _recorded(folder)
        if not expected or any(_checksum(folder / name) != checksum for name, checksum in expected.items()):
            return Module.DAMAGED
        return Module.GOOD if _files(folder) == sorted(expected) else Module.UNCHECKED
    except (OSError, ValueError):  # a file is missing or unreadable
        return Module.DAMAGED


def record(folder: Path) -> None:
    """Write the checksums of a module that was just loaded, if any file has none.

    If the cache is full or read-only, no checksums are written, and the module is compiled again next time.
    """
    with suppress(OSError, ValueError):
        names = _files(folder)
        expected = _recorded(folder) if (folder / CHECKSUMS).exists() else {}
        if names == sorted(expected):
            return
        # Machines with different CPUs may share a folder: keep the checksums that others recorded.
        lines = [f"{expected.get(name) or _checksum(folder / name)}  {name}\n" for name in names]
        temporary = folder / f"{CHECKSUMS}{_process_suffix()}"
        temporary.write_text("".join(lines), encoding="utf-8")
        temporary.replace(folder / CHECKSUMS)


def discard(folder: Path) -> None:
    """Remove a module atomically: other processes see either all of its files or none."""
    aside = folder.with_name(f"{folder.name}_discarded{_process_suffix()}")
    folder.rename(aside)
    _remove(aside)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Prevent other processes from compiling a module during the block, if the file system supports locks.

    The operating system releases the lock of a process that dies; a process that hangs delays others by at most
    `LOCK_TIMEOUT` seconds.
    """
    lock = None
    try:
        if fcntl is not None:
            with suppress(OSError):  # a read-only cache, into which nothing can be compiled anyway
                (folder.parent / LOCKS).mkdir(exist_ok=True)
                lock = os.open(folder.parent / LOCKS / folder.name, os.O_RDWR | os.O_CREAT, 0o666)
                _acquire(lock)
                _clear_leftovers(folder)
        yield
    finally:
        if lock is not None:
            os.close(lock)


def unwritable(root: Path, size: int) -> str | None:
    """Return why `size` bytes cannot be written to the cache, or None if they can.

    The bytes are actually written, before compiling: LLVM aborts the whole process if it cannot write.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root) as probe:
            for _ in range(0, size, 2**20):
                probe.write(bytes(2**20))
    except OSError as error:
        return error.strerror or str(error)
    return None


@dataclass(frozen=True)
class Contents:
    """Contents of a kernel cache."""

    folder: Path
    problem: str | None
    """Why the cache cannot be written, or None if it can."""
    size: int
    """Total size in bytes, including kernels of other programs."""
    modules: dict[str, Module]
    """States of ahac's modules, by folder name."""


def contents(root: Path, prefixes: tuple[str, ...], size: int) -> Contents:
    """Check all modules whose folder names start with one of `prefixes`, and whether `size` bytes can be written."""
    modules = {
        folder.name: check(folder)
        for folder in sorted(root.iterdir())
        if folder.name.startswith(prefixes) and not LEFTOVER.search(folder.name)
    }
    return Contents(root, unwritable(root, size), sum(map(_size, root.rglob("*"))), modules)


LEFTOVER = re.compile(r"_p(\d+)_t\d+$")
"""Suffix of temporary folders, with the id of the process that uses them; the same for Warp's and for ours."""


def _process_suffix() -> str:
    return f"_p{os.getpid()}_t{threading.get_ident()}"


def _files(folder: Path) -> list[str]:
    """Return the names of the module's files, ignoring those of file systems and file managers."""
    return sorted(entry.name for entry in os.scandir(folder) if entry.name.startswith(folder.name))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # another process removed it
        return 0


def _recorded(folder: Path) -> dict[str, str]:
    """Return the recorded checksums by file name."""
    lines = (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    return {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _acquire(lock: int) -> None:
    assert fcntl is not None
    deadline = time.monotonic() + LOCK_TIMEOUT
    while time.monotonic() < deadline:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(POLL)


def _clear_leftovers(folder: Path) -> None:
    """Remove temporary folders of processes that were killed while compiling this module."""
    for other in folder.parent.glob(f"{folder.name}*"):
        match = LEFTOVER.search(other.name)
        if match and not process_alive(int(match[1])):
            _remove(other)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
