"""Adam, and its memory as plain tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = ["adam", "moments", "only_where", "optimizer", "step_down"]

BETAS = (0.7, 0.95)
"""As in SHAC and its successors."""
TORCH_BETAS = (0.9, 0.999)
"""Torch's own, which methods without a differentiable simulator use."""


def adam(network: nn.Module, rate: float) -> torch.optim.Adam:
    """Adam as SHAC and its successors use it; on CUDA it can be recorded, its rate lies on the device."""
    device = next(network.parameters()).device
    return optimizer(
        network.parameters(), torch.tensor(rate, device=device) if device.type == "cuda" else rate, betas=BETAS
    )


def optimizer(
    parameters: Iterable[Tensor], rate: float | Tensor, *, betas: tuple[float, float] = TORCH_BETAS, eps: float = 1e-8
) -> torch.optim.Adam:
    """Adam; where the rate is a tensor, it may change on the device without anybody waiting."""
    owned = list(parameters)
    on_cuda = any(parameter.is_cuda for parameter in owned)
    return _begun(torch.optim.Adam(owned, lr=rate, betas=betas, eps=eps, fused=True, capturable=on_cuda))


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


def step_down(optimizer: torch.optim.Adam, loss: Tensor, max_norm: float | None = None) -> Tensor:
    """One step; the norm of the gradient before it was clipped. Only the optimizer's weights see it.

    Nothing moves where loss or gradient is not finite: the kernel looks at that itself, and nobody waits for it.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    gradients = torch.autograd.grad(loss, parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    norm = nn.utils.get_total_norm(gradients)
    if max_norm is not None:
        nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    with only_where(torch.isfinite(norm + loss.detach()), optimizer):
        optimizer.step()
    return norm


def moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimizer's memory itself, no copies, by parameter number and name."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": value for i, values in state.items() for name, value in values.items()}
