"""Adam optimizers, gradient steps, and optimizer state as plain tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = [
    "clip_rows",
    "gradient_step",
    "make_adam",
    "optimizer_tensors",
    "scheduled_adam",
    "shac_adam",
    "step_only_if",
]

BETAS = (0.7, 0.95)
"""Adam betas of SHAC and its successors."""
TORCH_BETAS = (0.9, 0.999)
"""Torch's default betas, for methods without a differentiable simulator."""


def shac_adam(network: nn.Module, learning_rate: float, weight_decay: float = 0.0) -> torch.optim.Adam:
    """Return `scheduled_adam` with SHAC's betas."""
    return scheduled_adam(network, learning_rate, betas=BETAS, weight_decay=weight_decay)


def scheduled_adam(
    network: nn.Module, learning_rate: float, *, betas: tuple[float, float] = TORCH_BETAS, weight_decay: float = 0.0
) -> torch.optim.Adam:
    """Return Adam, AdamW with weight decay, whose learning rate may change during training.

    On CUDA it can be captured in a graph, and its learning rate is on the device.
    """
    device = next(network.parameters()).device
    return make_adam(
        network.parameters(),
        torch.tensor(learning_rate, device=device) if device.type == "cuda" else learning_rate,
        betas=betas,
        weight_decay=weight_decay,
    )


def make_adam(
    parameters: Iterable[Tensor],
    learning_rate: float | Tensor,
    *,
    betas: tuple[float, float] = TORCH_BETAS,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> torch.optim.Adam:
    """Return fused Adam, or AdamW with weight decay.

    A learning rate given as a tensor can change on the device without a synchronization.
    """
    params = list(parameters)
    on_cuda = any(parameter.is_cuda for parameter in params)
    kind = torch.optim.AdamW if weight_decay else torch.optim.Adam
    return _allocate_state(
        kind(
            params,
            lr=learning_rate,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            fused=True,
            capturable=on_cuda,
        )
    )


def _allocate_state(optimizer: torch.optim.Adam) -> torch.optim.Adam:
    """Allocate the state that torch would allocate at the first step, which may be inside a CUDA graph capture."""
    for parameter in (p for group in optimizer.param_groups for p in group["params"]):
        if not optimizer.state[parameter]:
            optimizer.state[parameter] = {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
    return optimizer


@contextmanager
def step_only_if(valid: Tensor, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Make optimizer steps in the block take effect only if `valid`, a bool on the device, is true.

    The host does not read it. This is how a gradient scaler reports non-finite gradients to a fused optimizer.
    """
    optimizer.found_inf = (~valid).float()  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        del optimizer.found_inf  # pyright: ignore[reportAttributeAccessIssue]


def gradient_step(optimizer: torch.optim.Adam, loss: Tensor, max_grad_norm: float | None = None) -> Tensor:
    """Take one step and return the gradient norm before clipping; only the optimizer's own parameters get gradients.

    The step is skipped where the loss or the gradient is not finite, without a synchronization with the device.
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


def clip_rows(gradient: Tensor, max_norm: float | None) -> None:
    """Clip each row of a gradient by its own norm, in place, as torch's `clip_grad_norm_` does; None does nothing."""
    if max_norm is not None:
        gradient *= (max_norm / (gradient.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1.0)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the tensors of an optimizer's state, without copying, by parameter number and name."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": value for i, values in state.items() for name, value in values.items()}
