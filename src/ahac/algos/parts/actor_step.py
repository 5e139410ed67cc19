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
from ahac.rl.nonfinite import NONFINITE_POLICY_GRADIENT, usable_rollout
from ahac.rl.update import RolloutBuffer

__all__ = ["ActorStep", "RolloutGradients", "StepResult"]


class RolloutGradients(NamedTuple):
    """Gradients of the objective with respect to what the policy computed."""

    action: Tensor
    """[T, N, actions]"""
    entropy: Tensor | None
    """[T, N], if entropies are part of the reward."""


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
        self.epochs = None if config.plain else PolicyEpochs(actor, config, ranks)
        self.batched = next(actor.parameters()).is_cuda
        """Whether the gradient goes from actions to weights for all steps at once, instead of step by step."""

    def backward(self, objective: Tensor, buffer: RolloutBuffer, states: bool) -> RolloutGradients:
        """Return the gradients of the objective with respect to actions and entropies, and set the actor's.

        With `PolicyEpochs`, these set the actor's gradient later. With `states`, states keep their gradients as well.
        On CUDA, many small kernels per step cost more than evaluating the policy again, for all steps at once; on the
        CPU it is the opposite.
        """
        steps = buffer.rollout.steps
        weights = [weight for weight in self.actor.parameters() if weight.requires_grad and self.epochs is None]
        entropy = [] if buffer.entropy is None else [buffer.entropy]
        found = backward_to_steps(objective, steps, states, [*entropy, *(() if self.batched else weights)])
        gradients = RolloutGradients(action_gradients(steps), found.pop(0) if entropy else None)
        if self.batched and weights:
            found = self._weight_gradients(weights, buffer, gradients)
        for weight, gradient in zip(weights, found, strict=True):
            weight.grad = gradient
        return gradients

    def _weight_gradients(
        self, weights: list[nn.Parameter], buffer: RolloutBuffer, gradients: RolloutGradients
    ) -> list[Tensor]:
        """Evaluate the policy again, for all steps at once, and return the gradients of its weights."""
        obs, noise = buffer.rollout.obs, buffer.noise
        if gradients.entropy is None:
            found = torch.autograd.grad(self.actor(obs, noise), weights, gradients.action, materialize_grads=True)
        else:
            outputs = self.actor.sample(obs, noise)
            found = torch.autograd.grad(outputs, weights, tuple(gradients), materialize_grads=True)
        return list(found)

    def step(
        self, objective: Tensor, buffer: RolloutBuffer, gradients: RolloutGradients, advantage: Tensor | None
    ) -> StepResult:
        """Clip the gradient and step; with several epochs, repeat.

        Args:
            objective: Value of the objective.
            buffer: The rollout.
            gradients: What `backward` returned.
            advantage: [T, N] `weighted_advantages`, for mixed gradients.
        """
        rollout, epochs = buffer.rollout, self.epochs
        reused = None
        if epochs is not None:
            policy = self.actor.distribution(rollout.obs)
            reused = epochs.describe(policy, buffer.noise, gradients.action, advantage, gradients.entropy)
            epochs.set_gradients(reused, policy)
        norm = self._clip()
        valid = self.ranks.all(torch.isfinite(objective + norm) & usable_rollout(rollout))
        self._step_if(valid)
        if epochs is None or reused is None:
            return StepResult(norm, valid, {})
        clipped: list[Tensor] = []
        skipped = torch.zeros_like(norm)
        for _ in range(epochs.config.epochs - 1):
            clipped.append(epochs.set_gradients(reused, self.actor.distribution(rollout.obs)))
            finite = torch.isfinite(self._clip())
            skipped = skipped + ~finite
            self._step_if(valid & finite)
        return StepResult(norm, valid, {**epochs.metrics(reused, rollout.obs, clipped), "epochs_skipped": skipped})

    def explain(self, obs: Tensor) -> str:
        """Return what to report if the policy's gradient is not finite, though every world's is."""
        causes = "" if self.epochs is None else f"; {self.epochs.possible_causes(obs)}"
        return f"{NONFINITE_POLICY_GRADIENT}{causes}"

    def _clip(self) -> Tensor:
        """Average the gradient over ranks and clip it; return its norm before."""
        self.ranks.average_gradients(self.actor.parameters())
        return nn.utils.clip_grad_norm_(self.actor.parameters(), self.max_grad_norm)

    def _step_if(self, valid: Tensor) -> None:
        with step_only_if(valid, self.optimizer):
            self.optimizer.step()  # pyright: ignore[reportUnknownMemberType]
