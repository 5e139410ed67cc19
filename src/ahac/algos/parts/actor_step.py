"""Line 13 of Algorithm 1: the gradient of the objective through a rollout, and the policy's step."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ahac.algos.config import UpdateConfig
from ahac.algos.parts.policy_epochs import PolicyEpochs
from ahac.core.distributed import ProcessGroup
from ahac.nets.actor import SquashedGaussian
from ahac.nets.optim import step_only_if
from ahac.rl.diagnostics import action_gradients, backward_to_steps
from ahac.rl.nonfinite import usable_rollout
from ahac.rl.update import RolloutBuffer

__all__ = ["ActorStep", "StepResult"]


class StepResult(NamedTuple):
    """Result of a policy update, on the device."""

    norm: Tensor
    """Norm of the gradient before clipping."""
    valid: Tensor
    """Bool: whether the gradient and everything it came from are finite; if not, nothing was changed."""
    metrics: dict[str, Tensor]
    """More to log."""


class ActorStep:
    """Steps a policy with the gradient of an objective, once or several times."""

    def __init__(
        self,
        actor: SquashedGaussian,
        optimizer: torch.optim.Adam,
        max_grad_norm: float,
        config: UpdateConfig,
        ranks: ProcessGroup,
    ) -> None:
        self.actor = actor
        self.optimizer = optimizer
        self.max_grad_norm = max_grad_norm
        self.ranks = ranks
        self.epochs = None if config.plain else PolicyEpochs(actor, optimizer, config, max_grad_norm, ranks)
        self.batched = actor.log_std.is_cuda
        """Whether the gradient goes from actions to weights for all steps at once, instead of step by step."""

    def backward(self, objective: Tensor, buffer: RolloutBuffer, states: bool) -> Tensor:
        """Return the gradient of the objective with respect to each action, [T, N, actions], and set the actor's.

        With `PolicyEpochs`, these set the actor's gradient later. With `states`, states keep their gradients as well.
        On CUDA, many small kernels per step cost more than evaluating the policy again, for all steps at once; on the
        CPU it is the opposite.
        """
        steps = buffer.rollout.steps
        weights = [weight for weight in self.actor.parameters() if weight.requires_grad and self.epochs is None]
        gradients = backward_to_steps(objective, steps, states, () if self.batched else weights)
        by_action = action_gradients(steps)
        if self.batched and weights:
            actions = self.actor(buffer.rollout.obs, buffer.noise)
            gradients = torch.autograd.grad(actions, weights, by_action, materialize_grads=True)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient
        return by_action

    def step(self, objective: Tensor, buffer: RolloutBuffer, by_action: Tensor, advantage: Tensor | None) -> StepResult:
        """Clip the gradient and step; with several epochs, repeat.

        Args:
            objective: Value of the objective.
            buffer: The rollout.
            by_action: What `backward` returned.
            advantage: [T, N] `weighted_advantages`, for mixed gradients.
        """
        rollout, epochs = buffer.rollout, self.epochs
        reused = None
        if epochs is not None:
            reused = epochs.describe(rollout.obs, buffer.noise, by_action, advantage)
            epochs.set_gradients(reused, rollout.obs)
        self.ranks.average_gradients(self.actor.parameters())
        norm = nn.utils.clip_grad_norm_(self.actor.parameters(), self.max_grad_norm)
        valid = self.ranks.all(torch.isfinite(objective + norm) & usable_rollout(rollout))
        with step_only_if(valid, self.optimizer):
            self.optimizer.step()  # pyright: ignore[reportUnknownMemberType]
        metrics = {} if epochs is None or reused is None else epochs.repeat(reused, rollout.obs, valid)
        return StepResult(norm, valid, metrics)
