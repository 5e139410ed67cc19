"""Recordings cut into segments that are simulated in parallel, each from its own start."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.core.text import listed
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
    warnings: tuple[str, ...] = ()
    """What of the recordings is not used, and why."""

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
    """Cut recordings into segments of about `seconds`, as float64 on the CPU; leave out recordings that are shorter.

    Controls before the beginning of a recording are those of its first sample.
    """
    dt = same_dt(recordings)
    used, steps, warnings = _long_enough(recordings, max(1, round(seconds / dt)), dt)
    before = math.ceil(max_delay / dt - 1e-9) + 1
    without = [recording.name for recording in used if recording.v is None]
    with_velocity = not without
    if 0 < len(without) < len(used):
        warnings.append(
            f"no velocities were used, since {listed(without)} has none; record them, or fit {listed(without)} "
            "separately"
        )
    measured, starts, controls = [], [], []
    for recording in used:
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
    arrays = (torch.from_numpy(np.stack(rows)) for rows in (measured, starts, controls))
    return Segments(*arrays, warnings=tuple(warnings))


def _long_enough(recordings: Sequence[Recording], steps: int, dt: float) -> tuple[list[Recording], int, list[str]]:
    """Return the recordings with a segment or more, the steps of a segment, and a warning about the others."""
    # A recording of as many samples as steps passes for as long: it lacks one step.
    used = [recording for recording in recordings if len(recording.time) >= steps]
    if not used:
        longest = max(len(recording.time) for recording in recordings)
        raise InputError(
            f"a segment of {steps * dt:g} s does not fit into any recording, of which the longest takes "
            f"{(longest - 1) * dt:g} s; give a shorter segment (segment=, --segment)"
        )
    short = [recording.name for recording in recordings if len(recording.time) < steps]
    warnings = [
        f"{len(short)} of {len(recordings)} recordings are shorter than a segment of {steps * dt:g} s and were left "
        f"out: {listed(short)}; to use them, give a shorter segment (segment=, --segment)"
    ]
    shortest = min(len(recording.time) for recording in used)
    return used, min(steps, shortest - 1), warnings if short else []
