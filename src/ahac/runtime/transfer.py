"""Device to host: many numbers in one copy, so that an iteration waits for its device once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

__all__ = ["fetch", "record_event"]


def record_event() -> torch.cuda.Event:
    """Record an event after all work queued so far; waiting on it blocks without spinning."""
    event = torch.cuda.Event(blocking=True)
    event.record()
    return event


def fetch(tensors: Mapping[str, Tensor], share: Callable[[Tensor], Tensor] | None = None) -> dict[str, Tensor]:
    """Copy tensors of one device to the host as float64, all at once.

    Args:
        tensors: Scalars and vectors, by name.
        share: Applied to the packed numbers first, for example to give all ranks those of rank zero.
    """
    packed = torch.cat([x.detach().double().reshape(-1) for x in tensors.values()])
    if share is not None:
        packed = share(packed)
    if packed.is_cuda:
        record_event().synchronize()
    values = torch.split(packed.cpu(), [x.numel() for x in tensors.values()])
    return {name: value.reshape(x.shape) for (name, x), value in zip(tensors.items(), values, strict=True)}
