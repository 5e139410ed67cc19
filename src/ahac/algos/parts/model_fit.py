"""Fit a dynamics model to sequences from a replay buffer."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn import functional

from ahac.nets.latent_dynamics import LatentDynamics
from ahac.nets.optim import gradient_step, make_adam, optimizer_tensors
from ahac.nets.state_dicts import flatten

__all__ = ["ModelFit", "sequence_errors", "valid_mask"]


def valid_mask(done: Tensor) -> Tensor:
    """Return [L, B] 1 for steps of the episode that a sequence starts in, 0 after its end."""
    before = torch.cat([torch.zeros_like(done[:1]), done[:-1]])
    return 1.0 - before.cummax(dim=0).values


def sequence_errors(predicted: Tensor, real: Tensor, valid: Tensor) -> Tensor:
    """Return the [L] mean squared error of each step, over the sequences whose episode has not ended before it."""
    errors = (predicted - real).square().mean(dim=-1)
    return (errors * valid).sum(dim=1) / valid.sum(dim=1).clamp(min=1.0)


class ModelFit:
    """Networks for the dynamics, the reward and the termination of episodes, and their optimizers."""

    def __init__(
        self,
        dynamics: LatentDynamics,
        reward: nn.Module,
        end: nn.Module,
        learning_rate: float,
        head_learning_rate: float,
    ) -> None:
        """Train these networks.

        Args:
            dynamics: The dynamics model.
            reward: Reward, a function of the concatenated observation and action.
            end: Logit of the task terminating the episode, a function of the same.
            learning_rate: Learning rate of the dynamics.
            head_learning_rate: Learning rate of `reward` and `end`.
        """
        self.dynamics = dynamics
        self.reward = reward
        self.end = end
        self.optimizer = make_adam(dynamics.parameters(), learning_rate)
        self.head_optimizer = make_adam(chain(reward.parameters(), end.parameters()), head_learning_rate)

    def update(self, batch: Mapping[str, Tensor], max_grad_norm: float) -> tuple[Tensor, Tensor, Tensor]:
        """Update on [L, B, ...] sequences; return the errors of the first and last prediction, and of the reward."""
        valid = valid_mask(batch["done"])
        predicted = self.dynamics.unroll(batch["obs"][0], batch["action"])
        errors = sequence_errors(predicted, batch["next_obs"], valid)
        gradient_step(self.optimizer, errors.mean(), max_grad_norm)
        inputs = torch.cat([batch["obs"], batch["action"]], dim=-1)
        error = (self.reward(inputs).squeeze(-1) - batch["reward"]).square().mean()
        end_loss = functional.binary_cross_entropy_with_logits(self.end(inputs).squeeze(-1), batch["terminated"])
        gradient_step(self.head_optimizer, error + end_loss)
        return errors[0].detach(), errors[-1].detach(), error.detach()

    def reward_and_continuation(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Return [...] rewards of observations and actions, and the probabilities that the episode continues."""
        inputs = torch.cat([obs, action], dim=-1)
        return self.reward(inputs).squeeze(-1), torch.sigmoid(-self.end(inputs).squeeze(-1))

    def state_dict(self) -> dict[str, Tensor]:
        """Return what was learned: the tensors themselves, not copies."""
        return flatten(
            {
                "dynamics": self.dynamics.state_dict(),
                "reward": self.reward.state_dict(),
                "end": self.end.state_dict(),
                "optimizer": optimizer_tensors(self.optimizer),
                "head_optimizer": optimizer_tensors(self.head_optimizer),
            }
        )
