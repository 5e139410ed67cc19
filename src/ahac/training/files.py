"""Files that are complete or absent, never half: written beside their place, then moved there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replacing", "write_json"]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to; it takes the place of `path` when all went well, and is removed when not."""
    unfinished = path.with_name(f"{path.stem}.{os.getpid()}.tmp")
    try:
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write a dictionary, all of it or nothing."""
    with replacing(path) as unfinished:
        unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
