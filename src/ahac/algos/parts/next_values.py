"""Line 11 of Algorithm 1: the critic's values of the states that a rollout reached."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ahac.nets.critic import Ensemble
from ahac.rl.rollout import Rollout

__all__ = ["NextValues", "next_values"]


class NextValues(NamedTuple):
    """[T, N] V(s_{t+1}), zero where the task ended the episode."""

    actor: Tensor
    """Of the actor's objective; carries gradients."""
    target: Tensor
    """Of the critic's targets, without gradients."""


def next_values(critic: Ensemble | None, rollout: Rollout, actor_value: str) -> NextValues:
    """Return the values by the lowest of all members, or for the actor by their mean; zero without a critic."""
    if critic is None:
        return NextValues(torch.zeros_like(rollout.reward), torch.zeros_like(rollout.reward))
    if actor_value == "min":
        value = torch.where(rollout.terminated, 0.0, critic(rollout.final_critic_obs))
        return NextValues(value, value.detach())
    steps, worlds = rollout.reward.shape
    values = critic.values(rollout.final_critic_obs.flatten(0, 1)).view(-1, steps, worlds)
    values = torch.where(rollout.terminated, 0.0, values)
    return NextValues(values.mean(dim=0), values.detach().amin(dim=0))
