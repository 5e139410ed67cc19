"""Policies: squashed Gaussians, a = tanh(μ(s) + σ ε), with a standard deviation that does not depend on the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ahac.nets.mlp import mlp
from ahac.nets.normalizer import FrozenNormalizer

__all__ = ["Actor", "CustomActor", "SquashedGaussian"]


class SquashedGaussian(nn.Module):
    """A policy on normalized observations, whose μ is any network."""

    def __init__(self, net: nn.Module, actions: int, log_std: float) -> None:
        super().__init__()
        self.net = net
        self.log_std = nn.Parameter(torch.full((actions,), float(log_std)))

    def forward(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        """[..., actions] in (-1, 1), sampled with standard normal `noise`, or the mode without it."""
        mean = self.net(obs)
        return torch.tanh(mean if noise is None else torch.addcmul(mean, self.log_std.exp(), noise))

    def distribution(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """[..., actions] μ and log σ of the Gaussian before squashing."""
        mean = self.net(obs.flatten(0, -2)).unflatten(0, obs.shape[:-1])
        return mean, self.log_std.expand_as(mean)

    def sampler(self, normalizer: FrozenNormalizer) -> Callable[[Tensor, Tensor], Tensor]:
        """Return a function that samples actions from raw observations and noise, valid until the weights change."""
        return lambda obs, noise: self(normalizer(obs), noise)


class CustomActor(SquashedGaussian):
    """A policy whose μ is the user's network, which takes [B, obs] and returns [B, actions]."""

    def forward(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        """See `SquashedGaussian`; the network gets all observations as rows."""
        rows = super().forward(obs.flatten(0, -2), None if noise is None else noise.flatten(0, -2))
        return rows.unflatten(0, obs.shape[:-1])


class Actor(SquashedGaussian):
    """A policy on normalized observations: linear, ELU and layer norm for every hidden layer, then linear."""

    net: nn.Sequential

    def __init__(self, obs: int, actions: int, hidden: Sequence[int], *, log_std: float, rng: torch.Generator) -> None:
        super().__init__(mlp([obs, *hidden, actions], "elu", rng=rng, layer_norm=True), actions, log_std)

    def sampler(self, normalizer: FrozenNormalizer) -> Callable[[Tensor, Tensor], Tensor]:
        """Return a function that samples actions from raw observations and noise, valid until the weights change.

        The standard deviation, and first-layer weights that include the normalizer's scale, are computed only once.
        """
        first, rest = self.net[0], self.net[1:]
        assert isinstance(first, nn.Linear), "a policy begins with a linear layer"
        weight, std = normalizer.scaled(first.weight), self.log_std.exp()

        def sample(obs: Tensor, noise: Tensor) -> Tensor:
            mean = rest(functional.linear(normalizer.center(obs), weight, first.bias))
            return torch.tanh(torch.addcmul(mean, std, noise))

        return sample
