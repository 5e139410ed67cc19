"""Learning a model from replay: what it gets wrong along sequences, and the steps that make it better."""

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
    """[L, B] 1 where a step belongs to the episode that a sequence began in, 0 after its end."""
    before = torch.cat([torch.zeros_like(done[:1]), done[:-1]])
    return 1.0 - before.cummax(dim=0).values


def sequence_errors(predicted: Tensor, real: Tensor, valid: Tensor) -> Tensor:
    """[L] mean squared error by step, over the sequences that have not ended before it."""
    errors = (predicted - real).square().mean(dim=-1)
    return (errors * valid).sum(dim=1) / valid.sum(dim=1).clamp(min=1.0)


class ModelFit:
    """Dynamics, reward and end of episodes, each by a network that learns from what was seen."""

    def __init__(
        self,
        dynamics: LatentDynamics,
        reward: nn.Module,
        end: nn.Module,
        learning_rate: float,
        head_learning_rate: float,
    ) -> None:
        """`reward` and `end` are of observation and action; `end` gives the logit of the task ending the episode."""
        self.dynamics = dynamics
        self.reward = reward
        self.end = end
        self.optimizer = make_adam(dynamics.parameters(), learning_rate)
        self.head_optimizer = make_adam(chain(reward.parameters(), end.parameters()), head_learning_rate)

    def update(self, batch: Mapping[str, Tensor], max_grad_norm: float) -> tuple[Tensor, Tensor, Tensor]:
        """One step on [L, B, ...] sequences: errors of the first and of the last prediction, and of the reward."""
        valid = valid_mask(batch["done"])
        predicted = self.dynamics.unroll(batch["obs"][0], batch["action"])
        errors = sequence_errors(predicted, batch["next_obs"], valid)
        gradient_step(self.optimizer, errors.mean(), max_grad_norm)
        both = torch.cat([batch["obs"], batch["action"]], dim=-1)
        error = (self.reward(both).squeeze(-1) - batch["reward"]).square().mean()
        ends = functional.binary_cross_entropy_with_logits(self.end(both).squeeze(-1), batch["terminated"])
        gradient_step(self.head_optimizer, error + ends)
        return errors[0].detach(), errors[-1].detach(), error.detach()

    def reward_and_continuation(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """[...] rewards of observations and actions, and the probabilities that the task lets the episode go on."""
        both = torch.cat([obs, action], dim=-1)
        return self.reward(both).squeeze(-1), torch.sigmoid(-self.end(both).squeeze(-1))

    def state_dict(self) -> dict[str, Tensor]:
        """What was learned: the tensors themselves."""
        return flatten(
            {
                "dynamics": self.dynamics.state_dict(),
                "reward": self.reward.state_dict(),
                "end": self.end.state_dict(),
                "optimizer": optimizer_tensors(self.optimizer),
                "head_optimizer": optimizer_tensors(self.head_optimizer),
            }
        )
