"""A Gaussian policy and a value function for policy-gradient methods, with separate trunks or a shared one.

The policy is not squashed: the environment clips actions outside of [-1, 1]. Its standard deviation does not depend on
the state.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ahac.core.errors import InputError
from ahac.nets.mlp import activation, mlp

__all__ = ["PPOActorCritic"]

POLICY_GAIN = 0.01
"""Gain of the policy's last layer: initial actions are near zero for all observations."""


class PPOActorCritic(nn.Module):
    """μ(s), σ and V(s) of normalized observations."""

    def __init__(
        self,
        obs: int,
        actions: int,
        *,
        hidden: Sequence[int],
        critic_hidden: Sequence[int] | None,
        function: str,
        log_std: float,
        rng: torch.Generator,
        critic_obs: int | None = None,
    ) -> None:
        """Create the networks.

        Args:
            obs: Size of the policy's observation.
            actions: Number of actions.
            hidden: Hidden layer widths of the policy.
            critic_hidden: Hidden layer widths of the critic's own trunk; None shares the policy's.
            function: Activation function.
            log_std: Initial log standard deviation.
            rng: Initializes the weights.
            critic_obs: Size of the critic's own observation; None if it sees what the policy sees.
        """
        super().__init__()
        if critic_hidden is None and critic_obs is not None:
            raise InputError(
                "critic_hidden=None shares the policy's layers, but this task's critic has its own observations; give "
                f"critic_hidden layer widths, for example {tuple(hidden)}"
            )
        if critic_hidden is None:
            if not hidden:
                raise ValueError("a shared trunk needs at least one hidden layer, got hidden=(); or set critic_hidden")
            self.trunk = nn.Sequential(mlp([obs, *hidden], function, rng=rng, last_gain=2.0**0.5), activation(function))
            self.policy = mlp([hidden[-1], actions], function, rng=rng, last_gain=POLICY_GAIN)
            self.critic = mlp([hidden[-1], 1], function, rng=rng, last_gain=1.0)
        else:
            self.trunk = nn.Identity()
            self.policy = mlp([obs, *hidden, actions], function, rng=rng, last_gain=POLICY_GAIN)
            self.critic = mlp([critic_obs or obs, *critic_hidden, 1], function, rng=rng, last_gain=1.0)
        self.log_std = nn.Parameter(torch.full((actions,), float(log_std)))

    def mean(self, obs: Tensor) -> Tensor:
        """[B, actions] μ(s)."""
        return self.policy(self.trunk(obs))

    def value(self, critic_obs: Tensor) -> Tensor:
        """[...] V(s)."""
        return self.critic(self.trunk(critic_obs)).squeeze(-1)

    def forward(self, obs: Tensor, critic_obs: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return μ(s) and V(s), computing a shared trunk only once; `critic_obs` if the critic has its own."""
        features = self.trunk(obs)
        critic_features = features if critic_obs is None else critic_obs
        return self.policy(features), self.critic(critic_features).squeeze(-1)
