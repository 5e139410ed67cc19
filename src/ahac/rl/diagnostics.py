"""What the backward pass of a rollout tells about its gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from ahac.core.env import Step

__all__ = ["action_gradients", "adjoint_norms", "esnr", "keep_gradients"]


def keep_gradients(step: Step, states: bool) -> None:
    """Ask for the gradients at a step, of its action and, with `states`, of the state it started from."""
    wanted = [step.action, step.start.q, step.start.v] if states else [step.action]
    for tensor in wanted:
        if tensor.requires_grad:
            tensor.retain_grad()


def action_gradients(steps: list[Step]) -> Tensor:
    """[T, N, actions] of the loss by each action, after the backward pass."""
    return torch.stack([torch.zeros_like(s.action) if s.action.grad is None else s.action.grad for s in steps])


def adjoint_norms(steps: list[Step]) -> Tensor:
    """[T − 1] root mean square over worlds of the gradient by the state at the start of each step but the first."""
    norms = []
    for step in steps[1:]:
        parts = [x.grad.square().sum(dim=-1) for x in (step.start.q, step.start.v) if x.grad is not None]
        norms.append(sum(parts[1:], parts[0]).mean().sqrt() if parts else step.reward.new_zeros(()))
    return torch.stack(norms) if norms else steps[0].reward.new_ones(1)


def esnr(gradients: Tensor) -> Tensor:
    """Expected signal-to-noise ratio over worlds, eq:esnr: Σ E[g]² / Σ Var[g], of [..., N, actions] gradients."""
    mean = gradients.mean(dim=-2)
    noise = gradients.var(dim=-2, correction=0).sum()
    return torch.where(noise > 0.0, mean.square().sum() / noise, 0.0)
