"""Policies: squashed Gaussians, a = tanh(μ(s) + σ ε), with a deviation that does not depend on the state."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

__all__ = ["Actor"]


class Actor(nn.Module):
    """A policy of normalised observations: linear, ELU and layer norm for every hidden layer, then linear."""

    def __init__(self, obs: int, actions: int, hidden: Sequence[int], *, log_std: float, rng: torch.Generator) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise([obs, *hidden]):
            layers += [nn.Linear(inputs, outputs), nn.ELU(), nn.LayerNorm(outputs)]
        self.net = nn.Sequential(*layers, nn.Linear([obs, *hidden][-1], actions))
        for layer in self.net:
            if isinstance(layer, nn.Linear):
                _fill(layer, rng)
        self.log_std = nn.Parameter(torch.full((actions,), float(log_std)))

    def forward(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        """[B, actions] in (-1, 1), sampled with standard normal `noise`, or the mode without it."""
        return torch.tanh(self.net(obs)) if noise is None else self.sampler()(obs, noise)

    def sampler(self) -> Callable[[Tensor, Tensor], Tensor]:
        """Actions by observations and noise, for many steps with the same weights: the deviation is computed once."""
        deviation = self.log_std.exp()
        return lambda obs, noise: torch.tanh(torch.addcmul(self.net(obs), deviation, noise))


@torch.no_grad()
def _fill(layer: nn.Linear, rng: torch.Generator) -> None:
    """Uniform in ± 1/√inputs, weights and biases: torch's own rule, from a generator of ours."""
    bound = 1.0 / math.sqrt(layer.in_features)
    for parameter in layer.parameters():
        parameter.uniform_(-bound, bound, generator=rng)
