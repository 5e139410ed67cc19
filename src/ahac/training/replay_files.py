"""The replay buffer on disk: rows in segments of some megabytes, each a file that is complete or absent.

A checkpoint writes the rows that no segment holds yet before it is written itself; segments never change. Those that
the last checkpoint does not need are removed once it is in place (docs/decisions/0010-replay-on-disk.md).
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
"""Bytes of a segment, at most about."""
NAME = re.compile(r"rows-(\d+)-(\d+)\.safetensors")


class _Segment(NamedTuple):
    """Rows from `first` to before `last`."""

    first: int
    last: int
    path: Path


class ReplayFiles:
    """The folder of a replay buffer."""

    def __init__(self, folder: Path, replay: Replay, origin: str = "") -> None:
        """`origin` names the run that the segments belong to."""
        self.folder = folder
        self.replay = replay
        self.origin = origin
        self.most = max(SEGMENT // (replay.worlds * replay.width * replay.dtype.itemsize), 1)
        """Rows per segment."""
        self.written = 0
        """Rows before this number are on disk, or too old to be wanted."""

    def save(self, added: int) -> None:
        """Write what a checkpoint after `added` rows needs, before it is written itself."""
        make_folder(self.folder)
        # Of a process that ended before its checkpoint, or of a later checkpoint than the one training resumed from.
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
        """Remove what a checkpoint after `added` rows does not need, once it is in place."""
        for segment in self._segments():
            if segment.last <= added - self.replay.length:
                segment.path.unlink()

    def load(self, added: int) -> None:
        """Fill the replay as it was after `added` rows, a segment at a time."""
        place = max(added - self.replay.length, 0)
        for segment in self._segments():
            if segment.first <= place < min(segment.last, added):
                self._read(segment, place, min(segment.last, added))
                place = min(segment.last, added)
        if place < added:
            raise CheckpointError(
                f"{self.folder} lacks rows {place} to {added} of the replay buffer: the run cannot be resumed from "
                "this checkpoint, but its policy can be evaluated and played"
            )
        self.replay.added = self.written = added

    def _read(self, segment: _Segment, first: int, last: int) -> None:
        """Put rows of a segment into the replay buffer."""
        tensors, header = read_tensors(segment.path)
        rows = tensors.get("rows")
        names = {"first": str(segment.first), "last": str(segment.last)}
        if rows is None or len(rows) != segment.last - segment.first or rows.dtype != self.replay.dtype:
            got = "none" if rows is None else f"{rows.dtype} {list(rows.shape)}"
            wanted = f"{self.replay.dtype} [{segment.last - segment.first}, ...]"
            raise CheckpointError(f"{segment.path} must hold rows of {wanted}, got {got}")
        if odd := [name for name, text in names.items() if header.get(name, text) != text]:
            raise CheckpointError(f"{segment.path} was renamed: its {odd[0]} row is {header[odd[0]]}")
        if (origin := header.get("origin", self.origin)) != self.origin:
            logger.warning("%s was written by another run (%s; this one is %s)", segment.path, origin, self.origin)
        try:
            self.replay.put(first, rows[first - segment.first : last - segment.first])
        except InputError as error:
            raise CheckpointError(f"{segment.path} belongs to another run: {error}") from error

    def _segments(self) -> list[_Segment]:
        """All of them, by their first rows."""
        found = [(NAME.fullmatch(path.name), path) for path in sorted(self.folder.glob("rows-*.safetensors"))]
        return [_Segment(int(name[1]), int(name[2]), path) for name, path in found if name is not None]
