"""What the backward pass of a rollout tells about its gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.env import Step

__all__ = ["action_gradients", "adjoint_norms", "backward_to_steps", "esnr", "retain_step_gradients"]


def retain_step_gradients(step: Step, states: bool) -> None:
    """Ask for the gradients at a step, of its action and, with `states`, of the state it started from."""
    for tensor in _differentiable_tensors(step, states):
        tensor.retain_grad()


def backward_to_steps(loss: Tensor, steps: list[Step], states: bool, weights: Sequence[Tensor] = ()) -> list[Tensor]:
    """Leave the same gradients at steps whose graph is let go then; returns those by the policy's weights."""
    wanted = [tensor for step in steps for tensor in _differentiable_tensors(step, states)]
    found = torch.autograd.grad(loss, [*wanted, *weights], materialize_grads=True)
    for tensor, gradient in zip(wanted, found[: len(wanted)], strict=True):
        tensor.grad = gradient
    return list(found[len(wanted) :])


def action_gradients(steps: list[Step]) -> Tensor:
    """[T, N, actions] of the loss by each action, after the backward pass."""
    return _stack_gradients([step.action for step in steps])


def adjoint_norms(steps: list[Step], ranks: ProcessGroup = SINGLE_PROCESS) -> Tensor:
    """[T − 1] root mean square over worlds of the gradient by the state at the start of each step but the first."""
    starts = [step.state for step in steps[1:]]
    if not starts:
        return steps[0].reward.new_ones(1)
    q = _stack_gradients([start.q for start in starts])
    v = _stack_gradients([start.v for start in starts])
    squares = q.square().sum(dim=-1) + v.square().sum(dim=-1)
    return ranks.mean(squares.mean(dim=1)).sqrt()


def esnr(gradients: Tensor, ranks: ProcessGroup = SINGLE_PROCESS) -> Tensor:
    """Expected signal-to-noise ratio over worlds, eq:esnr: Σ E[g]² / Σ Var[g], of [..., N, actions] gradients."""
    mean, variance = ranks.merge_moments(gradients.mean(dim=-2), gradients.var(dim=-2, correction=0))
    noise = variance.sum()
    return torch.where(noise > 0.0, mean.square().sum() / noise, 0.0)


def _differentiable_tensors(step: Step, states: bool) -> list[Tensor]:
    """Of a step's action and, with `states`, of the state it started from, what has a gradient."""
    tensors = (step.action, step.state.q, step.state.v) if states else (step.action,)
    return [tensor for tensor in tensors if tensor.requires_grad]


def _stack_gradients(tensors: list[Tensor]) -> Tensor:
    """One upon the other; zero of what nothing depends on."""
    return torch.stack([torch.zeros_like(x) if x.grad is None else x.grad for x in tensors])
