"""The kernel cache: checks every file before it is loaded, and lets one process at a time compile a kernel.

Warp keeps each compiled module in a folder of its own. We add a file with the checksums of the others, once the module
has been loaded. A module whose files do not match is removed and compiled again: an object file with a flipped bit may
crash, or compute something else.
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
except ImportError:  # Windows: no locks, so two processes may compile the same kernel, as Warp allows
    fcntl = None

__all__ = ["Contents", "Module", "check", "contents", "discard", "exclusive", "record", "unwritable"]

CHECKSUMS = "ahac.sha256"
"""In the folder of a module; `sha256sum -c` reads it."""
LOCKS = "ahac_locks"
PATIENCE = 120.0
"""Seconds to wait while another process compiles the same kernel; then it is compiled here, too."""
POLL = 0.02
"""Seconds between two attempts to get a lock."""


class Module(Enum):
    """What the folder of a module in the cache is worth."""

    ABSENT = "absent"
    GOOD = "good"
    UNCHECKED = "unchecked"
    """Files without a checksum: an older version compiled them, or a process was killed before it could write it."""
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
    except (OSError, ValueError):  # a file is missing, or cannot be read
        return Module.DAMAGED


def record(folder: Path) -> None:
    """Write the checksums of a module that was just loaded, if there are files without one.

    A module of which the cache is full or read-only stays without them: it is compiled again next time.
    """
    with suppress(OSError, ValueError):
        names = _files(folder)
        expected = _recorded(folder) if (folder / CHECKSUMS).exists() else {}
        if names == sorted(expected):
            return
        # Machines with different CPUs share a folder: what another one recorded stays.
        lines = [f"{expected.get(name) or _checksum(folder / name)}  {name}\n" for name in names]
        unfinished = folder / f"{CHECKSUMS}{_mark()}"
        unfinished.write_text("".join(lines), encoding="utf-8")
        unfinished.replace(folder / CHECKSUMS)


def discard(folder: Path) -> None:
    """Remove a module; another process sees all of it, or nothing."""
    aside = folder.with_name(f"{folder.name}_discarded{_mark()}")
    folder.rename(aside)
    _remove(aside)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keep other processes from compiling a module meanwhile, where the file system has locks.

    The lock of a process that dies is released; one that hangs is waited for no longer than `TIMEOUT`.
    """
    lock = None
    try:
        if fcntl is not None:
            with suppress(OSError):  # a read-only cache: nothing can be compiled into it anyway
                (folder.parent / LOCKS).mkdir(exist_ok=True)
                lock = os.open(folder.parent / LOCKS / folder.name, os.O_RDWR | os.O_CREAT, 0o666)
                _acquire(lock)
                _clear_leftovers(folder)
        yield
    finally:
        if lock is not None:
            os.close(lock)


def unwritable(root: Path, room: int) -> str | None:
    """Why so many bytes cannot be written into the cache, or None if they can.

    Asked before compiling, and answered by writing them: LLVM ends the whole process if it cannot write.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root) as probe:
            for _ in range(0, room, 2**20):
                probe.write(bytes(2**20))
    except OSError as error:
        return error.strerror or str(error)
    return None


@dataclass(frozen=True)
class Contents:
    """What a cache holds."""

    folder: Path
    problem: str | None
    """Why nothing can be written to it; None if it can."""
    size: int
    """Bytes, including kernels of other programs."""
    modules: dict[str, Module]
    """Our own, by the name of their folder."""


def contents(root: Path, prefixes: tuple[str, ...], room: int) -> Contents:
    """Look through a cache, at the modules whose folders are named so, and whether it has so much room."""
    modules = {
        folder.name: check(folder)
        for folder in sorted(root.iterdir())
        if folder.name.startswith(prefixes) and not LEFTOVER.search(folder.name)
    }
    return Contents(root, unwritable(root, room), sum(map(_size, root.rglob("*"))), modules)


LEFTOVER = re.compile(r"_p(\d+)_t\d+$")
"""How the name of a folder ends that a process is working in, both Warp's and ours."""


def _mark() -> str:
    return f"_p{os.getpid()}_t{threading.get_ident()}"


def _files(folder: Path) -> list[str]:
    """The module's own; file systems and file managers leave others."""
    return sorted(entry.name for entry in os.scandir(folder) if entry.name.startswith(folder.name))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # another process removed it
        return 0


def _recorded(folder: Path) -> dict[str, str]:
    """Checksums by file name."""
    lines = (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    return {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _acquire(lock: int) -> None:
    assert fcntl is not None
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(POLL)


def _clear_leftovers(folder: Path) -> None:
    """Remove what processes left behind that were killed while they compiled this module."""
    for other in folder.parent.glob(f"{folder.name}*"):
        found = LEFTOVER.search(other.name)
        if found and not process_alive(int(found[1])):
            _remove(other)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
