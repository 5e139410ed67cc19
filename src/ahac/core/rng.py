"""Generators of chance that go on from where others were."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

__all__ = ["is_generator_state", "restore_generator"]

SIZES = (len(torch.Generator().get_state()), 16)
"""Bytes of a generator's state, on the CPU and on CUDA."""


def is_generator_state(state: object) -> bool:
    """Whether it is the state of a generator, of any device; a damaged state of a CPU generator is not."""
    if not isinstance(state, Tensor) or state.dtype != torch.uint8 or state.shape not in {(size,) for size in SIZES}:
        return False
    try:
        if len(state) == SIZES[0]:
            torch.Generator().set_state(state.cpu())
    except RuntimeError:
        return False
    return True


def restore_generator(generator: torch.Generator, state: Tensor) -> None:
    """Go on from a saved state: to the bit where it is of the same kind of device, else by a seed that is made of it.

    A GPU draws by another method than a CPU: no state of one says what the other would draw.
    """
    saved = state.cpu()
    if saved.shape == generator.get_state().shape:
        generator.set_state(saved)
        return
    digest = hashlib.sha256(saved.numpy().tobytes()).digest()
    generator.manual_seed(int.from_bytes(digest[:7], "little"))
