"""Schedules of learning rates over a training run."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["linear", "set_rate"]

FLOOR = 1e-5
"""Where linear schedules end."""


def linear(first: float, progress: float, floor: float = FLOOR) -> float:
    """From `first` at the start of training to `floor` at its end."""
    return first + (floor - first) * progress


def set_rate(optimizers: Iterable[torch.optim.Optimizer], rate: float) -> None:
    """Give optimizers a learning rate."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
