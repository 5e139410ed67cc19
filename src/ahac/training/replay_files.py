"""Replay on disk: rows in segments of some megabytes, each a safetensors file that is complete or absent.

A checkpoint writes the rows that no segment holds yet, before it is written itself; no segment is ever changed. Those
that the last checkpoint does not refer to are removed once it is in place (docs/decisions/0010-replay-on-disk.md).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ahac.core.errors import InputError
from ahac.core.files import replacing
from ahac.rl.replay import Replay
from ahac.training.checkpoint import CheckpointError

__all__ = ["ReplayFiles"]

SEGMENT = 2**26
"""Bytes of a segment, at most about."""
VERSION = "1"
NAME = re.compile(r"rows-(\d+)-(\d+)\.safetensors")


class _Segment(NamedTuple):
    """Rows from `first` to before `last`."""

    first: int
    last: int
    path: Path


class ReplayFiles:
    """A replay's folder."""

    def __init__(self, folder: Path, replay: Replay) -> None:
        self.folder, self.replay = folder, replay
        self.most = max(SEGMENT // (replay.worlds * replay.width * replay.dtype.itemsize), 1)
        """Rows per segment."""
        self.written = 0
        """Rows before this number are on disk, or too old to be wanted."""

    def save(self, added: int) -> None:
        """Write what a checkpoint after `added` rows needs, before it is written itself."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for segment in self._segments():
            if segment.last > self.written:  # of a process that ended before its checkpoint was in place
                segment.path.unlink()
        first = max(self.written, added - self.replay.length, 0)
        for begin in range(first, added, self.most):
            end = min(begin + self.most, added)
            path = self.folder / f"rows-{begin:010d}-{end:010d}.safetensors"
            with replacing(path) as unfinished:
                save_file({"rows": self.replay.rows(begin, end).cpu()}, unfinished, metadata={"version": VERSION})
        self.written = max(self.written, added)

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
                f"{self.folder} has no rows from {place} to {added}; without its replay a run cannot go on, but its "
                "policies can be evaluated and played"
            )
        self.replay.added = self.written = added

    def _read(self, segment: _Segment, first: int, last: int) -> None:
        try:
            with safe_open(segment.path, framework="pt") as file:
                got = (file.metadata() or {}).get("version")
                if got != VERSION:
                    raise CheckpointError(f"{segment.path} has version {got}, this program reads version {VERSION}")
                self.replay.put(first, file.get_slice("rows")[first - segment.first : last - segment.first])
        except (SafetensorError, OSError, InputError) as error:
            raise CheckpointError(f"{segment.path} is damaged, or another run's: {error}") from error

    def _segments(self) -> list[_Segment]:
        """All of them, by their first rows."""
        found = [(NAME.fullmatch(path.name), path) for path in sorted(self.folder.glob("rows-*.safetensors"))]
        return [_Segment(int(name[1]), int(name[2]), path) for name, path in found if name is not None]
