"""Adam, and its memory as plain tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = ["gradient_step", "make_adam", "optimizer_tensors", "shac_adam", "step_only_if"]

BETAS = (0.7, 0.95)
"""As in SHAC and its successors."""
TORCH_BETAS = (0.9, 0.999)
"""Torch's own, which methods without a differentiable simulator use."""


def shac_adam(network: nn.Module, learning_rate: float) -> torch.optim.Adam:
    """Adam as SHAC and its successors use it; on CUDA it can be recorded, its rate lies on the device."""
    device = next(network.parameters()).device
    return make_adam(
        network.parameters(),
        torch.tensor(learning_rate, device=device) if device.type == "cuda" else learning_rate,
        betas=BETAS,
    )


def make_adam(
    parameters: Iterable[Tensor],
    learning_rate: float | Tensor,
    *,
    betas: tuple[float, float] = TORCH_BETAS,
    eps: float = 1e-8,
) -> torch.optim.Adam:
    """Adam; where the rate is a tensor, it may change on the device without anybody waiting."""
    owned = list(parameters)
    on_cuda = any(parameter.is_cuda for parameter in owned)
    return _allocate_state(
        torch.optim.Adam(owned, lr=learning_rate, betas=betas, eps=eps, fused=True, capturable=on_cuda)
    )


def _allocate_state(optimizer: torch.optim.Adam) -> torch.optim.Adam:
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
def step_only_if(sound: Tensor, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Steps change something only where `sound`, a bool on the device, is true: nobody need look at it.

    This is what a gradient scaler tells a fused optimizer of gradients that are not finite.
    """
    optimizer.found_inf = (~sound).float()  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        del optimizer.found_inf  # pyright: ignore[reportAttributeAccessIssue]


def gradient_step(optimizer: torch.optim.Adam, loss: Tensor, max_grad_norm: float | None = None) -> Tensor:
    """One step; the norm of the gradient before it was clipped. Only the optimizer's weights see it.

    Nothing moves where loss or gradient is not finite: the kernel looks at that itself, and nobody waits for it.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    gradients = torch.autograd.grad(loss, parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    norm = nn.utils.get_total_norm(gradients)
    if max_grad_norm is not None:
        nn.utils.clip_grads_with_norm_(parameters, max_grad_norm, norm)
    with step_only_if(torch.isfinite(norm + loss.detach()), optimizer):
        optimizer.step()
    return norm


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimizer's memory itself, no copies, by parameter number and name."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": value for i, values in state.items() for name, value in values.items()}
