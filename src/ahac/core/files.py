"""Atomic file writes: a file is complete or absent, never partially written."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import platform
import re
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ahac.core.errors import AhacError, InputError

__all__ = [
    "DISK_FULL",
    "HOST",
    "OLD_TEMPORARY",
    "TEMPORARY",
    "WriteError",
    "atomic_write",
    "check_writable",
    "explain_write_errors",
    "is_abandoned",
    "make_folder",
    "process_alive",
    "read_json",
    "remove_leftovers",
    "set_aside",
    "sync_folder",
    "temporary_name",
    "write_json",
]

logger = logging.getLogger("ahac")

HOST = re.sub(r"[^A-Za-z0-9_]", "_", platform.node())
TEMPORARY = re.compile(r"\..+\.ahac-(?P<host>\w*)-(?P<process>\d+)\.tmp(\..*)?")
"""Pattern of the names of temporary files and folders, with the machine and the process that writes them."""
OLD_TEMPORARY = re.compile(r"\..+\.(?P<process>\d+)\.tmp(\..*)?")
"""The same pattern in version 0.1.0."""
DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
"""Error numbers of the operating system: no space left, quota exceeded."""


class WriteError(AhacError, OSError):
    """A file cannot be written."""


def temporary_name(path: Path) -> Path:
    """Return the temporary path to which this process writes before renaming it to `path`."""
    return path.with_name(f".{path.stem}.ahac-{HOST}-{os.getpid()}.tmp{path.suffix}")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Generator[Path]:
    """Yield a temporary path next to `path`; it replaces `path` if the block succeeds and is removed otherwise.

    File and folder are synced: after a power failure `path` is either the old or the new file.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"cannot write {str(path)!r}: there is no folder {str(target.parent)!r}; create it first")
    if target.is_dir():
        raise InputError(f"cannot write {str(path)!r}: it is a folder; choose another name")
    temporary = temporary_name(target)
    with explain_write_errors(path):
        try:
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(target)
            sync_folder(target.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def explain_write_errors(path: str | os.PathLike[str]) -> Generator[None]:
    """Turn operating system errors while writing `path` into a `WriteError` that names the path and the remedy."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        if error.errno in DISK_FULL:
            raise WriteError(f"cannot write {str(path)!r}: {error.strerror}; free some disk space and retry") from error
        if error.errno == errno.EROFS or isinstance(error, PermissionError):
            raise WriteError(f"cannot write {str(path)!r}: {error.strerror}; choose a writable folder") from error
        if error.errno == errno.EIO:
            raise WriteError(f"cannot write {str(path)!r}: {error.strerror}; check the disk") from error
        raise


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power failure, if the file system supports it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network file systems cannot sync folders
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


def check_writable(path: Path) -> None:
    """Raise InputError if a file cannot be written, before the work whose result it will hold."""
    if not path.parent.is_dir():
        raise InputError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}; create it first")
    if path.is_dir():
        raise InputError(f"cannot write {str(path)!r}: it is a folder; choose another name")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(f"cannot write {str(path)!r}: permission denied; choose another folder")


def make_folder(folder: Path) -> None:
    """Create a folder that survives a power failure."""
    if not folder.is_dir():
        with explain_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            sync_folder(folder.parent)


def write_json(path: Path, content: Mapping[str, object], checksum: bool = False) -> None:
    """Write a dictionary atomically, optionally with a checksum that `read_json` verifies."""
    added = {"checksum": _checksum(content)} if checksum else {}
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps({**content, **added}, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path, editable: bool = False) -> dict[str, Any]:
    """Read a dictionary from a file, without its checksum.

    Users may edit some files: an `editable` file that does not match its checksum is read with a warning.

    Raises:
        InputError: If the file is damaged.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged or cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} must hold a dictionary, got {type(content).__name__}")
    entries: dict[str, Any] = content  # pyright: ignore[reportUnknownVariableType]
    checksum = entries.pop("checksum", None)
    if checksum is not None and checksum != _checksum(entries):
        if not editable:
            raise InputError(f"{path} is damaged: its checksum does not match its content")
        logger.warning("%s has changed since it was written: its checksum does not match its content", path)
    return entries


def _checksum(content: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def set_aside(path: Path, label: str, copy: bool = False) -> Path:
    """Preserve a file by renaming or copying it to NAME.LABEL-N, with the first unused N; return the new path."""
    for n in range(1, 10_000):
        kept = path.with_name(f"{path.stem}.{label}-{n}{path.suffix}")
        if not os.path.lexists(kept):
            if not copy:
                with explain_write_errors(kept):
                    path.rename(kept)
                return kept
            with atomic_write(kept) as temporary:
                shutil.copyfile(path, temporary)
            return kept
    raise InputError(f"{path.parent} has 9999 files named like {path.stem}.{label}-1{path.suffix}; remove some")


def is_abandoned(path: Path) -> bool:
    """Return whether a path is a temporary file or folder of a process on this machine that has ended."""
    match = TEMPORARY.fullmatch(path.name)
    return match is not None and match["host"] == HOST and not process_alive(int(match["process"]))


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        old = OLD_TEMPORARY.fullmatch(path.name)
        if path.is_file() and (is_abandoned(path) or (old is not None and not process_alive(int(old["process"])))):
            path.unlink(missing_ok=True)


def process_alive(process: int) -> bool:
    """Return whether a process on this machine is running; True if that is unknown."""
    if os.name != "posix" or process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to another user
        return True
    return True
