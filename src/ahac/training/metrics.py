"""What episodes came to, and where the time went."""

from __future__ import annotations

import time
from collections import deque

import torch
from torch import Tensor

from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.env import Step
from ahac.core.errors import InputError
from ahac.native.build import compile_seconds as compiled

__all__ = ["EpisodeStats", "Stopwatch"]

WINDOW = 100
"""Finished episodes that means are taken over."""


class EpisodeStats:
    """Returns and lengths of the latest finished episodes."""

    def __init__(self) -> None:
        self.returns: deque[float] = deque(maxlen=WINDOW)
        self.lengths: deque[float] = deque(maxlen=WINDOW)

    def update(self, steps: list[Step], ranks: ProcessGroup = SINGLE_PROCESS) -> None:
        """Take in what the steps of a rollout finished, on all ranks."""
        if not steps:  # the rollout ended before its first
            return
        returns = ranks.gather(torch.stack([step.episode_return for step in steps]), dim=1)
        # A return that is not finite would spoil the mean for a hundred episodes; the trouble is reported elsewhere.
        done = ranks.gather(torch.stack([step.done for step in steps]), dim=1) & returns.isfinite()
        if not bool(done.any()):
            return
        self.returns.extend(returns[done].tolist())
        lengths = ranks.gather(torch.stack([step.episode_length for step in steps]), dim=1)
        self.lengths.extend(lengths[done].tolist())

    def metrics(self) -> dict[str, float]:
        """Mean return and length; nothing before the first episode has ended."""
        if not self.returns:
            return {}
        return {
            "episode_return": sum(self.returns) / len(self.returns),
            "episode_length": sum(self.lengths) / len(self.lengths),
        }

    def state_dict(self) -> dict[str, Tensor]:
        """The window."""
        kept = [list(self.returns), list(self.lengths)]
        return {"episodes": torch.tensor(kept, dtype=torch.float64).reshape(2, -1)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Resume from a saved window."""
        saved = state.get("episodes")
        if saved is None or saved.dim() != 2 or len(saved) != 2 or saved.dtype != torch.float64:
            got = "none" if saved is None else f"{saved.dtype} {list(saved.shape)}"
            raise InputError(f"'episodes' of a checkpoint must be a float64 tensor of shape [2, n], got {got}")
        returns, lengths = saved.tolist()
        self.returns = deque(returns, maxlen=WINDOW)
        self.lengths = deque(lengths, maxlen=WINDOW)


class Stopwatch:
    """Seconds of training over interruptions, apart from those spent waiting for kernels to be compiled."""

    def __init__(self, seconds: float = 0.0, compile_seconds: float = 0.0) -> None:
        """Continue from these."""
        self._seconds = seconds
        self._compile_seconds = compile_seconds
        self._start = time.perf_counter()
        self._compile_start = compiled()

    @property
    def seconds(self) -> float:
        """Of training so far, without compilation."""
        return self._seconds + time.perf_counter() - self._start - (compiled() - self._compile_start)

    @property
    def compile_seconds(self) -> float:
        """Spent waiting for kernels so far."""
        return self._compile_seconds + compiled() - self._compile_start
