"""Generators of chance that go on from where others were."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

__all__ = ["go_on"]


def go_on(generator: torch.Generator, state: Tensor) -> None:
    """Go on from a saved state: to the bit where it is of the same kind of device, else by a seed that is made of it.

    A GPU draws by another method than a CPU: no state of one says what the other would draw.
    """
    saved = state.cpu()
    if saved.shape == generator.get_state().shape:
        generator.set_state(saved)
        return
    digest = hashlib.sha256(saved.numpy().tobytes()).digest()
    generator.manual_seed(int.from_bytes(digest[:7], "little"))
