"""Adam, and its memory as plain tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

__all__ = ["adam", "moments", "set_moments"]

BETAS = (0.7, 0.95)
"""As in SHAC and its successors."""


def adam(network: nn.Module, rate: float) -> torch.optim.Adam:
    """Adam as SHAC and its successors use it."""
    return torch.optim.Adam(network.parameters(), lr=rate, betas=BETAS, fused=True)


def moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimizer's memory, by parameter number and name."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": value for i, values in state.items() for name, value in values.items()}


def set_moments(optimizer: torch.optim.Optimizer, moments: Mapping[str, Tensor]) -> None:
    """Give an optimizer the memory that another one had."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in moments.items():
        number, name = key.split(".")
        state.setdefault(int(number), {})[name] = value.clone()
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
