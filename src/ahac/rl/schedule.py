"""Learning rate schedules over a training run."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["cosine_schedule", "linear_schedule", "set_learning_rate"]

FINAL_LEARNING_RATE = 1e-5
"""Learning rate at the end of a linear schedule."""


def linear_schedule(initial: float, progress: float, final: float = FINAL_LEARNING_RATE) -> float:
    """Interpolate linearly from `initial` at the start of training to `final` at its end; 0 stays 0.

    `final` is where the schedule ends, not a lower bound: as in the released code, a learning rate below 1e-5 rises to
    1e-5 over a run.
    """
    return initial + (final - initial) * progress if initial else 0.0


def cosine_schedule(initial: float, progress: float, final: float) -> float:
    """Return final + ½ (initial − final) (1 + cos π progress)."""
    return final + 0.5 * (initial - final) * (1.0 + math.cos(math.pi * progress))


def set_learning_rate(optimizers: Iterable[torch.optim.Optimizer], learning_rate: float) -> None:
    """Set the learning rate of optimizers, in place if it is a tensor."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(learning_rate)
            else:
                group["lr"] = learning_rate
