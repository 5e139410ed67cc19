"""Episode statistics and training time."""

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
"""Number of latest episodes over which means are taken."""


class EpisodeStats:
    """Returns and lengths of the latest finished episodes, over all ranks."""

    def __init__(self) -> None:
        self.returns: deque[float] = deque(maxlen=WINDOW)
        self.lengths: deque[float] = deque(maxlen=WINDOW)

    def update(self, steps: list[Step], ranks: ProcessGroup = SINGLE_PROCESS) -> None:
        """Add the episodes that ended during a rollout, gathered from all ranks."""
        if not steps:  # the rollout failed before its first step
            return
        returns = ranks.gather(torch.stack([step.episode_return for step in steps]), dim=1)
        # A non-finite return would make the mean non-finite for a hundred episodes; the failure is reported elsewhere.
        done = ranks.gather(torch.stack([step.done for step in steps]), dim=1) & returns.isfinite()
        if not bool(done.any()):
            return
        self.returns.extend(_floats(returns[done]))
        lengths = ranks.gather(torch.stack([step.episode_length for step in steps]), dim=1)
        self.lengths.extend(_floats(lengths[done]))

    def metrics(self) -> dict[str, float]:
        """Return the mean return and length; empty before the first episode has ended."""
        if not self.returns:
            return {}
        return {
            "episode_return": sum(self.returns) / len(self.returns),
            "episode_length": sum(self.lengths) / len(self.lengths),
        }

    def state_dict(self) -> dict[str, Tensor]:
        """Return the window of latest episodes."""
        window = [list(self.returns), list(self.lengths)]
        return {"episodes": torch.tensor(window, dtype=torch.float64).reshape(2, -1)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Load a saved window."""
        saved = state.get("episodes")
        if saved is None or saved.dim() != 2 or len(saved) != 2 or saved.dtype != torch.float64:
            got = "none" if saved is None else f"{saved.dtype} {list(saved.shape)}"
            raise InputError(f"'episodes' of a checkpoint must be a float64 tensor of shape [2, n], got {got}")
        self.returns = deque(_floats(saved[0]), maxlen=WINDOW)
        self.lengths = deque(_floats(saved[1]), maxlen=WINDOW)


def _floats(x: Tensor) -> list[float]:
    """Return a one-dimensional tensor as a list."""
    return x.tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class Stopwatch:
    """Training time summed over interruptions, with kernel compilation counted separately."""

    def __init__(self, seconds: float = 0.0, compile_seconds: float = 0.0) -> None:
        """Start from times accumulated by earlier processes [s]."""
        self._seconds = seconds
        self._compile_seconds = compile_seconds
        self._start = time.perf_counter()
        self._compile_start = compiled()

    @property
    def seconds(self) -> float:
        """Training time so far without compilation [s]."""
        return self._seconds + time.perf_counter() - self._start - (compiled() - self._compile_start)

    @property
    def compile_seconds(self) -> float:
        """Kernel compilation time so far [s]."""
        return self._compile_seconds + compiled() - self._compile_start
