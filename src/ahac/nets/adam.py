"""Adam, and its memory as plain tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = ["adam", "moments", "only_where", "set_moments"]

BETAS = (0.7, 0.95)
"""As in SHAC and its successors."""


def adam(network: nn.Module, rate: float) -> torch.optim.Adam:
    """Adam as SHAC and its successors use it; on CUDA it can be recorded, its rate lies on the device."""
    device = next(network.parameters()).device
    cuda = device.type == "cuda"
    first = torch.tensor(rate, device=device) if cuda else rate
    return _begun(torch.optim.Adam(network.parameters(), lr=first, betas=BETAS, fused=True, capturable=cuda))


def _begun(optimizer: torch.optim.Adam) -> torch.optim.Adam:
    """With the memory that torch would make at the first step: that one may be recorded, and its memory must last."""
    for parameter in (p for group in optimizer.param_groups for p in group["params"]):
        if not optimizer.state[parameter]:
            optimizer.state[parameter] = {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
    return optimizer


@contextmanager
def only_where(sound: Tensor, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Steps change something only where `sound`, a bool on the device, is true: nobody need look at it.

    This is what a gradient scaler tells a fused optimizer of gradients that are not finite.
    """
    optimizer.found_inf = (~sound).float()  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        del optimizer.found_inf  # pyright: ignore[reportAttributeAccessIssue]


def moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimizer's memory, by parameter number and name."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": value for i, values in state.items() for name, value in values.items()}


def set_moments(optimizer: torch.optim.Adam, moments: Mapping[str, Tensor]) -> None:
    """Give an optimizer the memory that another one had."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in moments.items():
        number, name = key.split(".")
        state.setdefault(int(number), {})[name] = value.clone()
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    _begun(optimizer)
