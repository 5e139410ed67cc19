"""Replay buffer: the latest transitions of all worlds, in one tensor on the device.

A row is one step of all worlds, so a world's next transition is in the next row. Rows are numbered from the first one
ever added. The ring has spare rows that are not sampled from, at least as many as an iteration adds: an iteration can
be discarded, or crash, without having overwritten rows that were still in use before it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ahac.core.checks import check_int
from ahac.core.errors import InputError

__all__ = ["Replay"]


class Replay:
    """A ring buffer of [rows, worlds, width] numbers."""

    def __init__(
        self,
        widths: Mapping[str, int | None],
        worlds: int,
        *,
        buffer_size: int,
        spare: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        """Define the layout; memory is allocated when the first row is added.

        Args:
            widths: Numbers per transition, by name; None is one number without a separate dimension.
            worlds: Transitions per row.
            buffer_size: Number of latest transitions to sample from, rounded down to whole rows.
            spare: Additional rows for older transitions; as many rows can be discarded by `rewind`.
            device: Device of the buffer.
            dtype: Type of the numbers.
        """
        self.widths = dict(widths)
        self.worlds = worlds
        self._sizes = [1 if width is None else width for width in widths.values()]
        self.length = max(check_int("buffer_size", buffer_size, 1) // worlds, 1)
        """Largest number of rows to sample from."""
        self.slots = self.length + check_int("spare", spare, 0)
        self.device = device
        self.dtype = dtype
        self._added = 0
        self._ring: Tensor | None = None
        self._window = torch.zeros(2, dtype=torch.int64, device=device)
        """Number of the oldest transition to sample from, and their count; on the device, for captured updates."""

    @property
    def added(self) -> int:
        """Number of rows ever added."""
        return self._added

    @added.setter
    def added(self, rows: int) -> None:
        self._added = rows
        self._window[0].fill_(self.oldest * self.worlds)
        self._window[1].fill_(self.size * self.worlds)

    @property
    def width(self) -> int:
        """Numbers per transition."""
        return sum(self._sizes)

    @property
    def size(self) -> int:
        """Number of rows to sample from."""
        return min(self.added, self.length)

    @property
    def oldest(self) -> int:
        """Index of the oldest row to sample from."""
        return self.added - self.size

    def add(self, **parts: Tensor) -> None:
        """Add a row: [worlds, width] or [worlds] numbers for each name."""
        named = zip(self.widths, self._sizes, strict=True)
        flat = [parts[name].detach().reshape(self.worlds, size).to(self.dtype) for name, size in named]
        torch.cat(flat, dim=-1, out=self._rows()[self.added % self.slots])
        self.added += 1

    def rewind(self, added: int) -> None:
        """Discard the latest rows, back to `added` rows ever added."""
        if not 0 <= self.added - added <= self.slots - self.length:
            spare = self.slots - self.length
            raise InputError(f"at most the last {spare} of {self.added} rows can be discarded, got a rewind to {added}")
        self.added = added

    def sample(self, count: int, rng: torch.Generator) -> dict[str, Tensor]:
        """Sample [B, width] transitions uniformly, with replacement."""
        return self.named_rows(self._at(self._draw(count, 1, rng)))

    def sample_sequences(self, count: int, length: int, rng: torch.Generator) -> dict[str, Tensor]:
        """Sample [L, B, width] sequences of consecutive transitions of a world; they may span several episodes."""
        steps = torch.arange(length, device=self.device)[:, None]
        return self.named_rows(self._at(self._draw(count, length, rng) + self.worlds * steps))

    def rows(self, first: int, last: int) -> Tensor:
        """Return the [last − first, worlds, width] rows `first` to `last`, if they are not overwritten yet."""
        start = max(0, self.added - self.slots)
        if not start <= first <= last <= self.added:
            raise InputError(f"rows {first} to {last} are not all in the buffer; it has rows {start} to {self.added}")
        slots = torch.arange(first, last, device=self.device) % self.slots
        return self._rows()[slots]

    def put(self, first: int, rows: Tensor) -> None:
        """Restore saved rows, starting at number `first`; the caller sets `added`."""
        if rows.shape[1:] != (self.worlds, self.width):
            expected = [self.worlds, self.width]
            raise InputError(f"rows of the replay buffer must have shape {expected}, got {list(rows.shape[1:])}")
        slots = torch.arange(first, first + len(rows), device=self.device) % self.slots
        self._rows()[slots] = rows.to(self.device, self.dtype)

    def named_rows(self, rows: Tensor) -> dict[str, Tensor]:
        """Split [..., width] rows by name."""
        pieces = torch.split(rows, self._sizes, dim=-1)
        named = zip(self.widths.items(), pieces, strict=True)
        return {name: piece.squeeze(-1) if width is None else piece for (name, width), piece in named}

    def _rows(self) -> Tensor:
        if self._ring is None:
            shape = (self.slots, self.worlds, self.width)
            self._ring = torch.zeros(shape, device=self.device, dtype=self.dtype)
        return self._ring

    def _draw(self, count: int, length: int, rng: torch.Generator) -> Tensor:
        """Draw [B] numbers of transitions, counted from the oldest, at which a sequence of this length can start."""
        if self.size < length:
            raise InputError(
                f"sequences of {length} steps need as many rows in the replay buffer, but it has {self.size}; add more "
                "rows first"
            )
        share = torch.rand(count, generator=rng, device=self.device, dtype=torch.float64)
        return (share * (self._window[1] - (length - 1) * self.worlds)).long()

    def _at(self, number: Tensor) -> Tensor:
        """Return [..., width] transitions by their numbers, counted from the oldest."""
        index = (number + self._window[0]) % (self.slots * self.worlds)
        return self._rows().view(-1, self.width)[index]
