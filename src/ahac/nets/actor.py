"""Policies: squashed Gaussians, a = tanh(μ(s) + σ ε), with a deviation that does not depend on the state."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from ahac.nets.normalizer import FrozenNormalizer

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
        mean = self.net(obs)
        return torch.tanh(mean if noise is None else torch.addcmul(mean, self.log_std.exp(), noise))

    def sampler(self, view: FrozenNormalizer) -> Callable[[Tensor, Tensor], Tensor]:
        """The same of raw observations seen through a view, for many steps with the same weights.

        What does not change from step to step is computed once: the deviation, and first weights that scale as well.
        """
        first, later = self.net[0], self.net[1:]
        assert isinstance(first, nn.Linear), "a policy begins with a linear layer"
        weight, deviation = view.scaled(first.weight), self.log_std.exp()

        def sample(obs: Tensor, noise: Tensor) -> Tensor:
            mean = later(functional.linear(view.center(obs), weight, first.bias))
            return torch.tanh(torch.addcmul(mean, deviation, noise))

        return sample


@torch.no_grad()
def _fill(layer: nn.Linear, rng: torch.Generator) -> None:
    """Uniform in ± 1/√inputs, weights and biases: torch's own rule, from a generator of ours."""
    bound = 1.0 / math.sqrt(layer.in_features)
    for parameter in layer.parameters():
        parameter.uniform_(-bound, bound, generator=rng)
