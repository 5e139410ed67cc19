"""Replay buffer on disk: rows in segment files of up to about 64 MiB, each written atomically.

Before a checkpoint is written, the rows that no segment holds yet are written as new segments; segments never change.
Segments that the last checkpoint does not need are removed after it is written
(docs/decisions/0010-replay-on-disk.md).
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import NamedTuple

from ahac.algos.parts.replay import Replay
from ahac.core.errors import InputError
from ahac.core.files import make_folder
from ahac.training.tensor_files import CheckpointError, read_tensors, write_tensors

__all__ = ["ReplayFiles"]

logger = logging.getLogger("ahac")

SEGMENT = 2**26
"""Approximate maximum size of a segment in bytes."""
NAME = re.compile(r"rows-(\d+)-(\d+)\.safetensors")


class _Segment(NamedTuple):
    """File with rows `first` to `last - 1`."""

    first: int
    last: int
    path: Path


class ReplayFiles:
    """Segment files of a replay buffer in one folder."""

    def __init__(self, folder: Path, replay: Replay, origin: str = "") -> None:
        """Save `replay` in `folder`; `origin` identifies the run that the segments belong to."""
        self.folder = folder
        self.replay = replay
        self.origin = origin
        self.most = max(SEGMENT // (replay.worlds * replay.width * replay.dtype.itemsize), 1)
        """Rows per segment."""
        self.written = 0
        """Rows before this number are on disk or no longer in the buffer."""

    def save(self, added: int) -> None:
        """Write the rows that a checkpoint after `added` rows needs; call this before writing it."""
        make_folder(self.folder)
        # Left by a process that ended before its checkpoint, or by a checkpoint later than the one resumed from.
        stale = [segment for segment in self._segments() if segment.last > self.written]
        self.written = min([self.written, *(segment.first for segment in stale)])
        first = max(self.written, added - self.replay.length, 0)
        for begin in range(first, added, self.most):
            end = min(begin + self.most, added)
            path = self.folder / f"rows-{begin:010d}-{end:010d}.safetensors"
            header = {"first": str(begin), "last": str(end), "origin": self.origin}
            write_tensors(path, {"rows": self.replay.rows(begin, end)}, header)
            stale = [segment for segment in stale if segment.path != path]
        self.written = max(self.written, added)
        for segment in stale:
            segment.path.unlink()

    def prune(self, added: int) -> None:
        """Remove segments that a checkpoint after `added` rows does not need; call this after writing it."""
        for segment in self._segments():
            if segment.last <= added - self.replay.length:
                segment.path.unlink()

    def load(self, added: int) -> None:
        """Restore the replay buffer as it was after `added` rows, one segment at a time."""
        row = max(added - self.replay.length, 0)
        for segment in self._segments():
            if segment.first <= row < min(segment.last, added):
                self._read(segment, row, min(segment.last, added))
                row = min(segment.last, added)
        if row < added:
            raise CheckpointError(
                f"{self.folder} lacks rows {row} to {added} of the replay buffer: the run cannot be resumed from "
                "this checkpoint, but its policy can be evaluated and played"
            )
        self.replay.added = self.written = added

    def _read(self, segment: _Segment, first: int, last: int) -> None:
        """Load rows `first` to `last - 1` of a segment into the replay buffer."""
        tensors, header = read_tensors(segment.path)
        rows = tensors.get("rows")
        bounds = {"first": str(segment.first), "last": str(segment.last)}
        if rows is None or len(rows) != segment.last - segment.first or rows.dtype != self.replay.dtype:
            got = "none" if rows is None else f"{rows.dtype} {list(rows.shape)}"
            expected = f"{self.replay.dtype} [{segment.last - segment.first}, ...]"
            raise CheckpointError(f"{segment.path} must hold rows of {expected}, got {got}")
        if renamed := [name for name, text in bounds.items() if header.get(name, text) != text]:
            raise CheckpointError(f"{segment.path} was renamed: its {renamed[0]} row is {header[renamed[0]]}")
        if (origin := header.get("origin", self.origin)) != self.origin:
            logger.warning("%s was written by another run (%s; this one is %s)", segment.path, origin, self.origin)
        try:
            self.replay.put(first, rows[first - segment.first : last - segment.first])
        except InputError as error:
            raise CheckpointError(f"{segment.path} belongs to another run: {error}") from error

    def _segments(self) -> list[_Segment]:
        """Return all segments in the order of their first rows."""
        files = [(NAME.fullmatch(path.name), path) for path in sorted(self.folder.glob("rows-*.safetensors"))]
        return [_Segment(int(name[1]), int(name[2]), path) for name, path in files if name is not None]
