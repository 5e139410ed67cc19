"""Files that are complete or absent, never half: written beside their place, then moved there."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ahac.core.errors import InputError

__all__ = ["replacing", "write_json"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[Path]:
    """A name beside `path`, of the same kind, to write to; it becomes `path` when all went well, else it is removed."""
    wanted = Path(path)
    if not wanted.parent.is_dir():
        raise InputError(f"cannot write {str(path)!r}: there is no folder {str(wanted.parent)!r}; make it first")
    if wanted.is_dir():
        raise InputError(f"cannot write {str(path)!r}: a folder has this name; choose another")
    unfinished = wanted.with_name(f".{wanted.stem}.{os.getpid()}.tmp{wanted.suffix}")
    try:
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(wanted)
    except PermissionError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}; choose another place") from error
    finally:
        unfinished.unlink(missing_ok=True)


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write a dictionary, all of it or nothing."""
    with replacing(path) as unfinished:
        unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
