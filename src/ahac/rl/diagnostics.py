"""Gradients of a rollout: with respect to actions and states, their growth, and their signal-to-noise ratio."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ahac.core.env import Step

__all__ = [
    "action_gradients",
    "adjoint_norms",
    "backward_to_steps",
    "esnr",
    "mean_square_adjoints",
    "retain_step_gradients",
]


def retain_step_gradients(step: Step, states: bool) -> None:
    """Retain the gradients of a step's action and, with `states`, of the state before it."""
    for tensor in _differentiable_tensors(step, states):
        tensor.retain_grad()


def backward_to_steps(loss: Tensor, steps: list[Step], states: bool, weights: Sequence[Tensor] = ()) -> list[Tensor]:
    """Backpropagate once, free the graph, and return the gradients of `weights`.

    The gradients of the steps' actions and, with `states`, of the states before them are stored on these tensors.
    """
    inputs = [tensor for step in steps for tensor in _differentiable_tensors(step, states)]
    gradients = torch.autograd.grad(loss, [*inputs, *weights], materialize_grads=True)
    for tensor, gradient in zip(inputs, gradients[: len(inputs)], strict=True):
        tensor.grad = gradient
    return list(gradients[len(inputs) :])


def action_gradients(steps: list[Step]) -> Tensor:
    """Return the [T, N, actions] gradients of the loss with respect to each action, after the backward pass."""
    return _stack_gradients([step.action for step in steps])


def adjoint_norms(steps: list[Step]) -> Tensor:
    """Return the [T − 1] root mean square over worlds of ‖∂J/∂s‖, for the state before each step except the first."""
    return mean_square_adjoints(steps).sqrt()


def mean_square_adjoints(steps: list[Step]) -> Tensor:
    """Return the [T − 1] mean over worlds of ‖∂J/∂s‖², for the state before each step except the first."""
    starts = [step.state for step in steps[1:]]
    if not starts:
        return steps[0].reward.new_ones(1)
    q = _stack_gradients([start.q for start in starts])
    v = _stack_gradients([start.v for start in starts])
    squares = q.square().sum(dim=-1) + v.square().sum(dim=-1)
    return squares.mean(dim=1)


def esnr(gradients: Tensor) -> Tensor:
    """Return the expected signal-to-noise ratio of [..., N, actions] gradients over worlds, eq:esnr:

    Σ E[g]² / Σ Var[g]
    """
    signal = gradients.mean(dim=-2).square().sum()
    noise = gradients.var(dim=-2, correction=0).sum()
    return torch.where(noise > 0.0, signal / noise, 0.0)


def _differentiable_tensors(step: Step, states: bool) -> list[Tensor]:
    """Return a step's action and, with `states`, the state before it, if they require a gradient."""
    tensors = (step.action, step.state.q, step.state.v) if states else (step.action,)
    return [tensor for tensor in tensors if tensor.requires_grad]


def _stack_gradients(tensors: list[Tensor]) -> Tensor:
    """Stack the gradients, with zeros for tensors without one."""
    return torch.stack([torch.zeros_like(x) if x.grad is None else x.grad for x in tensors])
