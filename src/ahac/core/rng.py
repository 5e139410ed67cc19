"""Saving and restoring random number generators across devices."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

__all__ = ["is_generator_state", "restore_generator"]

SIZES = (len(torch.Generator().get_state()), 16)
"""Bytes of a generator's state on the CPU and on CUDA."""


def is_generator_state(state: object) -> bool:
    """Return whether a value is a valid generator state of any device; only CPU states are checked for damage."""
    if not isinstance(state, Tensor) or state.dtype != torch.uint8 or state.shape not in {(size,) for size in SIZES}:
        return False
    try:
        if len(state) == SIZES[0]:
            torch.Generator().set_state(state.cpu())
    except RuntimeError:
        return False
    return True


def restore_generator(generator: torch.Generator, state: Tensor) -> None:
    """Restore a generator from a saved state: exactly on the same device type, otherwise with a seed derived from it.

    CPU and CUDA generators use different algorithms, so that a state of one cannot be converted for the other.
    """
    saved = state.cpu()
    if saved.shape == generator.get_state().shape:
        generator.set_state(saved)
        return
    digest = hashlib.sha256(saved.numpy().tobytes()).digest()
    generator.manual_seed(int.from_bytes(digest[:7], "little"))
