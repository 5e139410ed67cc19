"""Adam with torch's own decay rates, and one step down a gradient; for methods without a differentiable simulator."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

__all__ = ["optimizer", "step_down"]


def optimizer(parameters: Iterable[Tensor], rate: float | Tensor, eps: float = 1e-8) -> torch.optim.Adam:
    """Adam; where the rate is a tensor, it may change on the device without anybody waiting."""
    return torch.optim.Adam(parameters, lr=rate, eps=eps, fused=True)


def step_down(optimizer: torch.optim.Optimizer, loss: Tensor, max_norm: float | None = None) -> Tensor | None:
    """One step; the norm of the gradient before it was clipped, where it is. Only the optimizer's weights see it."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    norm = None if max_norm is None else nn.utils.clip_grad_norm_(parameters, max_norm)
    optimizer.step()
    return norm
