"""One epoch of critic training: the interface, the plain torch implementation, and the choice of the fastest one."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from ahac.nets.critic import Critic, Ensemble
from ahac.nets.kernels.cpu_critic import CpuKernelEpoch
from ahac.nets.kernels.cuda_critic import CudaKernelEpoch
from ahac.nets.kernels.cuda_wide_critic import MIN_WEIGHTS, CudaWideEpoch
from ahac.nets.optim import clip_rows

__all__ = ["CriticEpoch", "TorchEpoch", "make_critic_epoch"]


class CriticEpoch(Protocol):
    """Minimizes a critic's mean squared error over one pass through a batch."""

    max_in_flight: int
    """On CUDA, number of epochs that may be queued before the host knows whether they are needed."""

    def __call__(self, obs: Tensor, target: Tensor, order: Tensor, minibatches: int) -> Tensor:
        """Train on [B, obs] and [B] in the given row order, and return the [M] mean losses of the members.

        Each member's gradient is clipped by its own norm.
        """
        ...


class TorchEpoch:
    """Plain torch with autograd: for any device, precision and optimizer, and the reference for the kernels."""

    max_in_flight = 1

    def __init__(self, critic: Ensemble, optimizer: torch.optim.Optimizer, max_grad_norm: float | None) -> None:
        self.critic = critic
        self.optimizer = optimizer
        self.max_grad_norm = max_grad_norm

    def __call__(self, obs: Tensor, target: Tensor, order: Tensor, minibatches: int) -> Tensor:
        """See `CriticEpoch`."""
        theta = self.critic.theta
        if theta.grad is None:
            theta.grad = torch.zeros_like(theta)
        total = obs.new_zeros(self.critic.members)
        for rows in order.tensor_split(minibatches):
            losses = self.critic.losses(obs[rows], target[rows])
            (gradient,) = torch.autograd.grad(losses.sum(), theta)
            clip_rows(gradient, self.max_grad_norm)
            theta.grad.copy_(gradient)
            self.optimizer.step()
            total += losses.detach()
        return total / minibatches


def make_critic_epoch(critic: Ensemble, optimizer: torch.optim.Adam, max_grad_norm: float | None) -> CriticEpoch:
    """Return the fastest implementation that supports the critic's shape, device and precision."""
    if not isinstance(critic, Critic):
        return TorchEpoch(critic, optimizer, max_grad_norm)
    if CudaWideEpoch.supports(critic) and critic.theta.shape[1] >= MIN_WEIGHTS:
        return CudaWideEpoch(critic, optimizer, max_grad_norm)
    if CudaKernelEpoch.supports(critic):
        return CudaKernelEpoch(critic, optimizer, max_grad_norm)
    if CpuKernelEpoch.supports(critic):
        return CpuKernelEpoch(critic, optimizer, max_grad_norm)
    return TorchEpoch(critic, optimizer, max_grad_norm)
