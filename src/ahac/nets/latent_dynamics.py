"""A learned deterministic dynamics model: encoder, recurrent cells, decoder.

Its inputs and predictions are normalized observations. The hidden state starts at zero with every prediction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ahac.nets.mlp import activation, fill_uniform, mlp

__all__ = ["LatentDynamics"]

Policy = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class LatentDynamics(nn.Module):
    """s_{t+1} = s_t + d(h_{t+1}, e_t),   h_{t+1} = GRU(e_t, h_t),   e_t = e(s_t, a_t)."""

    def __init__(
        self,
        obs: int,
        actions: int,
        *,
        hidden: Sequence[int],
        latent: int,
        layers: int,
        function: str,
        rng: torch.Generator,
    ) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = nn.Sequential(mlp([obs + actions, *hidden, latent], function, rng=rng), activation(function))
        self.cells = nn.ModuleList(nn.GRUCell(latent, latent) for _ in range(layers))
        for cell in self.cells:
            fill_uniform(cell.parameters(), 1.0 / math.sqrt(latent), rng)
        self.decoder = mlp([2 * latent, *hidden, obs], function, rng=rng)

    def initial_hidden(self, obs: Tensor) -> list[Tensor]:
        """Return the initial hidden state for [B, obs]: zeros."""
        return [obs.new_zeros(len(obs), self.latent) for _ in self.cells]

    def forward(self, obs: Tensor, action: Tensor, memory: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Return the [B, obs] after one step, and the next hidden state."""
        code = self.encoder(torch.cat([obs, action], dim=-1))
        x, next_memory = code, []
        for cell, hidden in zip(self.cells, memory, strict=True):
            x = cell(x, hidden)
            next_memory.append(x)
        return obs + self.decoder(torch.cat([x, code], dim=-1)), next_memory

    def unroll(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Predict [L, B, obs] for [L, B, actions], starting at [B, obs], each step from the previous prediction."""
        memory, predictions = self.initial_hidden(obs), []
        for action in actions:
            obs, memory = self(obs, action, memory)
            predictions.append(obs)
        return torch.stack(predictions)

    def imagine(self, obs: Tensor, policy: Policy, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Roll out a policy in the model; return observations, actions and their log densities, [H + 1, B, ...].

        Args:
            obs: [B, obs] initial observations.
            policy: Returns actions and their log densities for observations and noise.
            noise: [H + 1, B, actions] standard normal noise; the last action is sampled, but not applied.
        """
        memory = self.initial_hidden(obs)
        observations = []
        actions = []
        densities = []
        for k, step_noise in enumerate(noise):
            action, density = policy(obs, step_noise)
            observations.append(obs)
            actions.append(action)
            densities.append(density)
            if k < len(noise) - 1:
                obs, memory = self(obs, action, memory)
        return torch.stack(observations), torch.stack(actions), torch.stack(densities)
