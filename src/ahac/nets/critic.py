"""Critics: the value of a state, by one network or by the more cautious of two."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ahac.nets.layers import Ensemble

__all__ = ["Critic"]


class Critic(nn.Module):
    """V(s) of normalised observations, by M networks that never share a weight."""

    def __init__(self, obs: int, hidden: Sequence[int], *, members: int, rng: torch.Generator) -> None:
        super().__init__()
        self.members = members
        self.net = Ensemble(members, obs, hidden, 1)
        for layer in self.net.layers():
            layer.fill_orthogonal(math.sqrt(2.0), rng)

    def each(self, obs: Tensor) -> Tensor:
        """[M, B] what every member says."""
        flat = obs.reshape(1, -1, obs.shape[-1])
        return self.net(flat.expand(self.members, -1, -1)).squeeze(-1)

    def forward(self, obs: Tensor) -> Tensor:
        """[...] the least of what the members say."""
        return self.each(obs).amin(dim=0).reshape(obs.shape[:-1])
