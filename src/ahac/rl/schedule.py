"""Schedules of learning rates over a training run."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["linear_schedule", "set_learning_rate"]

FINAL_LEARNING_RATE = 1e-5
"""Where linear schedules end."""


def linear_schedule(initial: float, progress: float, final: float = FINAL_LEARNING_RATE) -> float:
    """From `first` at the start of training to `floor` at its end."""
    return initial + (final - initial) * progress


def set_learning_rate(optimizers: Iterable[torch.optim.Optimizer], learning_rate: float) -> None:
    """Give optimizers a learning rate."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(learning_rate)
            else:
                group["lr"] = learning_rate
