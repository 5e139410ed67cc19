"""Policies: squashed Gaussians, a = tanh(μ(s) + σ ε), with a deviation that does not depend on the state."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ahac.nets.layers import Ensemble

__all__ = ["Actor"]


class Actor(nn.Module):
    """A policy of normalised observations."""

    def __init__(self, obs: int, actions: int, hidden: Sequence[int], *, log_std: float, rng: torch.Generator) -> None:
        super().__init__()
        self.net = Ensemble(1, obs, hidden, actions)
        for layer in self.net.layers():
            layer.fill_uniform(rng)
        self.log_std = nn.Parameter(torch.full((actions,), log_std))

    def forward(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        """[B, actions] in (-1, 1), sampled with standard normal `noise`, or the mode without it."""
        mean = self.net(obs[None])[0]
        return torch.tanh(mean if noise is None else torch.addcmul(mean, self.log_std.exp(), noise))
