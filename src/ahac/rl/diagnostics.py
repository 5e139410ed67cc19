"""What the backward pass of a rollout tells about its gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ahac.core.env import Step
from ahac.core.ranks import ALONE, Ranks

__all__ = ["action_gradients", "adjoint_norms", "differentiate", "esnr", "keep_gradients"]


def keep_gradients(step: Step, states: bool) -> None:
    """Ask for the gradients at a step, of its action and, with `states`, of the state it started from."""
    for tensor in _wanted(step, states):
        tensor.retain_grad()


def differentiate(loss: Tensor, steps: list[Step], states: bool, weights: Sequence[Tensor] = ()) -> list[Tensor]:
    """Leave the same gradients at steps whose graph is let go then; returns those by the policy's weights."""
    wanted = [tensor for step in steps for tensor in _wanted(step, states)]
    found = torch.autograd.grad(loss, [*wanted, *weights], materialize_grads=True)
    for tensor, gradient in zip(wanted, found[: len(wanted)], strict=True):
        tensor.grad = gradient
    return list(found[len(wanted) :])


def action_gradients(steps: list[Step]) -> Tensor:
    """[T, N, actions] of the loss by each action, after the backward pass."""
    return _gradients([step.action for step in steps])


def adjoint_norms(steps: list[Step], ranks: Ranks = ALONE) -> Tensor:
    """[T − 1] root mean square over worlds of the gradient by the state at the start of each step but the first."""
    starts = [step.start for step in steps[1:]]
    if not starts:
        return steps[0].reward.new_ones(1)
    q, v = _gradients([start.q for start in starts]), _gradients([start.v for start in starts])
    squares = q.square().sum(dim=-1) + v.square().sum(dim=-1)
    return ranks.mean(squares.mean(dim=1)).sqrt()


def esnr(gradients: Tensor, ranks: Ranks = ALONE) -> Tensor:
    """Expected signal-to-noise ratio over worlds, eq:esnr: Σ E[g]² / Σ Var[g], of [..., N, actions] gradients."""
    mean, variance = ranks.merged(gradients.mean(dim=-2), gradients.var(dim=-2, correction=0))
    noise = variance.sum()
    return torch.where(noise > 0.0, mean.square().sum() / noise, 0.0)


def _wanted(step: Step, states: bool) -> list[Tensor]:
    """Of a step's action and, with `states`, of the state it started from, what has a gradient."""
    tensors = (step.action, step.start.q, step.start.v) if states else (step.action,)
    return [tensor for tensor in tensors if tensor.requires_grad]


def _gradients(tensors: list[Tensor]) -> Tensor:
    """One upon the other; zero of what nothing depends on."""
    return torch.stack([torch.zeros_like(x) if x.grad is None else x.grad for x in tensors])
