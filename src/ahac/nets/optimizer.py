"""Adam with torch's own decay rates, and one step down a gradient; for methods without a differentiable simulator."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ahac.nets.adam import only_where

__all__ = ["optimizer", "step_down"]


def optimizer(parameters: Iterable[Tensor], rate: float | Tensor, eps: float = 1e-8) -> torch.optim.Adam:
    """Adam; where the rate is a tensor, it may change on the device without anybody waiting."""
    owned = list(parameters)
    on_cuda = any(parameter.is_cuda for parameter in owned)
    return torch.optim.Adam(owned, lr=rate, eps=eps, fused=True, capturable=on_cuda)


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
