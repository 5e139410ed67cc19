"""A learnt deterministic model of how observations go on: encoder, recurrent cells, decoder.

It sees normalised observations and predicts normalised ones. What it remembers begins at zero with every prediction.
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
        """What it remembers of [B, obs] at the start: nothing."""
        return [obs.new_zeros(len(obs), self.latent) for _ in self.cells]

    def forward(self, obs: Tensor, action: Tensor, memory: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """[B, obs] one step on, and what is remembered then."""
        code = self.encoder(torch.cat([obs, action], dim=-1))
        x, kept = code, []
        for cell, old in zip(self.cells, memory, strict=True):
            x = cell(x, old)
            kept.append(x)
        return obs + self.decoder(torch.cat([x, code], dim=-1)), kept

    def unroll(self, obs: Tensor, actions: Tensor) -> Tensor:
        """[L, B, obs] predictions of [L, B, actions] from [B, obs], each from the one before."""
        memory, found = self.initial_hidden(obs), []
        for action in actions:
            obs, memory = self(obs, action, memory)
            found.append(obs)
        return torch.stack(found)

    def imagine(self, obs: Tensor, policy: Policy, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A policy played in the model: observations, actions and their log densities, [H + 1, B, ...].

        Args:
            obs: [B, obs] where it begins.
            policy: Action and log density of observations and noise.
            noise: [H + 1, B, actions]; the last action is not played.
        """
        memory = self.initial_hidden(obs)
        seen = []
        played = []
        densities = []
        for k, drawn in enumerate(noise):
            action, density = policy(obs, drawn)
            seen.append(obs)
            played.append(action)
            densities.append(density)
            if k < len(noise) - 1:
                obs, memory = self(obs, action, memory)
        return torch.stack(seen), torch.stack(played), torch.stack(densities)
