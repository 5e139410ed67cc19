"""Recordings cut into segments that are simulated in parallel, each from its own start."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ahac.identification.recordings import Recording, continuous_positions, estimate_velocities, same_dt
from ahac.sim import Model

__all__ = ["Segments", "cut"]


@dataclass(frozen=True, eq=False)
class Segments:
    """S segments of K steps each; no sample belongs to two of them."""

    measured: Tensor
    """[S, K + 1, nq or nq + nv] measured positions and, if recorded, velocities."""
    starts: Tensor
    """[S, nx] measured or estimated states at the first sample, with encoder offsets."""
    controls: Tensor
    """[S, D + K, nu] controls, beginning D samples before the segment."""

    @property
    def count(self) -> int:
        """Number of segments."""
        return len(self.starts)

    @property
    def steps(self) -> int:
        """Steps per segment, K."""
        return self.measured.shape[1] - 1

    def select(self, rows: Tensor) -> Segments:
        """Return some of the segments."""
        return replace(self, measured=self.measured[rows], starts=self.starts[rows], controls=self.controls[rows])


def cut(model: Model, recordings: Sequence[Recording], seconds: float, max_delay: float) -> Segments:
    """Cut recordings into segments of about `seconds`, as float64 on the CPU.

    Controls before the beginning of a recording are those of its first sample.
    """
    dt = same_dt(recordings)
    steps = max(1, round(seconds / dt))
    shortest = min(len(recording.time) for recording in recordings)
    steps = min(steps, shortest - 1)
    before = math.ceil(max_delay / dt - 1e-9) + 1
    with_velocity = all(recording.v is not None for recording in recordings)
    measured, starts, controls = [], [], []
    for recording in recordings:
        recording.check(model)
        q = continuous_positions(model, recording)
        v = estimate_velocities(model, recording) if recording.v is None else recording.v
        state = np.concatenate([q, v, np.zeros((len(q), model.na))], axis=1)
        channels = model.nq + (model.nv if with_velocity else 0)
        u = np.concatenate([np.repeat(recording.control[:1], before, axis=0), recording.control])
        # Spread the segments over the recording, if they do not fill it.
        count = len(q) // (steps + 1)
        for first in np.linspace(0, len(q) - (steps + 1), count).astype(int):
            measured.append(state[first : first + steps + 1, :channels])
            starts.append(state[first])
            controls.append(u[first : first + before + steps])
    return Segments(*(torch.from_numpy(np.stack(rows)) for rows in (measured, starts, controls)))
