"""Replay: the latest transitions of all worlds, in one tensor on the device.

A row is one step of all worlds, so that what follows a transition in its world is in the next row. Rows are numbered
from the first that was ever added. The ring has some more rows than transitions are drawn from: an iteration can be
taken back, and a crash in it loses nothing, since the rows before it have not been overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ahac.core.checks import check_int
from ahac.core.errors import InputError

__all__ = ["Replay"]


class Replay:
    """A ring of [rows, worlds, width] numbers."""

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
        """Nothing is allocated before the first row is added.

        Args:
            widths: Numbers per transition, by name; none: one, without a dimension of its own.
            worlds: Transitions per row.
            capacity: Transitions to draw from, the latest; whole rows.
            spare: Rows more than that, of older transitions: as many as can be taken back.
            device: Where they are.
            dtype: What they are.
        """
        self.widths = dict(widths)
        self.worlds = worlds
        self._sizes = [1 if width is None else width for width in widths.values()]
        self.length = max(check_int("capacity", buffer_size, 1) // worlds, 1)
        """Rows to draw from."""
        self.slots = self.length + check_int("spare", spare, 0)
        self.device = device
        self.dtype = dtype
        self._added = 0
        self._ring = None
        self._window = torch.zeros(2, dtype=torch.int64, device=device)
        """Number of the oldest transition to draw from, and how many there are: where the device finds them."""

    @property
    def added(self) -> int:
        """Rows ever added."""
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
        """Rows to draw from, at present."""
        return min(self.added, self.length)

    @property
    def oldest(self) -> int:
        """Number of the oldest of them."""
        return self.added - self.size

    def add(self, **parts: Tensor) -> None:
        """One row: [worlds, width] or [worlds] of every part."""
        named = zip(self.widths, self._sizes, strict=True)
        flat = [parts[name].detach().reshape(self.worlds, size).to(self.dtype) for name, size in named]
        torch.cat(flat, dim=-1, out=self._rows()[self.added % self.slots])
        self.added += 1

    def rewind(self, added: int) -> None:
        """Forget the latest rows, as if `added` were all that was ever added."""
        if not 0 <= self.added - added <= self.slots - self.length:
            raise InputError(f"rows {self.added} can be taken back by {self.slots - self.length}, not to {added}")
        self.added = added

    def sample(self, count: int, rng: torch.Generator) -> dict[str, Tensor]:
        """[B, width] transitions, each drawn from all of them."""
        return self.named_rows(self._at(self._draw(count, 1, rng)))

    def sample_sequences(self, count: int, length: int, rng: torch.Generator) -> dict[str, Tensor]:
        """[L, B, width] transitions that follow each other in their worlds, across the ends of episodes."""
        steps = torch.arange(length, device=self.device)[:, None]
        return self.named_rows(self._at(self._draw(count, length, rng) + self.worlds * steps))

    def rows(self, first: int, last: int) -> Tensor:
        """[last − first, worlds, width] rows by number, of those that are still there."""
        if not max(0, self.added - self.slots) <= first <= last <= self.added:
            raise InputError(f"rows {first} to {last} are not all there; rows up to {self.added} were added")
        slots = torch.arange(first, last, device=self.device) % self.slots
        return self._rows()[slots]

    def put(self, first: int, rows: Tensor) -> None:
        """Fill in rows from number `first` on, as they were saved; `added` is set by whoever knows it."""
        if rows.shape[1:] != (self.worlds, self.width):
            wanted = [self.worlds, self.width]
            raise InputError(f"rows of replay must have shape {wanted}, got {list(rows.shape[1:])}")
        slots = torch.arange(first, first + len(rows), device=self.device) % self.slots
        self._rows()[slots] = rows.to(self.device, self.dtype)

    def named_rows(self, rows: Tensor) -> dict[str, Tensor]:
        """What [..., width] rows hold, by name."""
        pieces = rows.split(self._sizes, dim=-1)
        named = zip(self.widths.items(), pieces, strict=True)
        return {name: piece.squeeze(-1) if width is None else piece for (name, width), piece in named}

    def _rows(self) -> Tensor:
        if self._ring is None:
            shape = (self.slots, self.worlds, self.width)
            self._ring = torch.zeros(shape, device=self.device, dtype=self.dtype)
        return self._ring

    def _draw(self, count: int, length: int, rng: torch.Generator) -> Tensor:
        """[B] numbers of transitions, counted from the oldest, that as many rows follow as a sequence needs."""
        if self.size < length:
            raise InputError(
                f"sequences of {length} steps need as many rows in the replay, there are {self.size}; add more first"
            )
        share = torch.rand(count, generator=rng, device=self.device, dtype=torch.float64)
        return (share * (self._window[1] - (length - 1) * self.worlds)).long()

    def _at(self, number: Tensor) -> Tensor:
        """[..., width] transitions, by numbers counted from the oldest."""
        place = (number + self._window[0]) % (self.slots * self.worlds)
        return self._rows().view(-1, self.width)[place]
