"""Policies: squashed Gaussians, a = tanh(μ(s) + σ ε), with a standard deviation that may depend on the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ahac.nets.gaussian import squashed_log_prob
from ahac.nets.mlp import mlp
from ahac.nets.normalizer import FrozenNormalizer
from ahac.nets.policy_layers import first_outputs

__all__ = ["Actor", "ConstantStdActor", "CustomActor", "SquashedGaussian", "StateStdActor"]


class SquashedGaussian(nn.Module):
    """A policy on normalized observations, whose μ and perhaps log σ come from a network."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def distribution(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """[..., actions] μ and log σ of the Gaussian before squashing."""
        raise NotImplementedError

    def mean_net(self) -> nn.Module:
        """Return a network that computes μ."""
        return self.net

    def forward(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        """[..., actions] in (-1, 1), sampled with standard normal `noise`, or the mode without it."""
        mean, log_std = self.distribution(obs)
        return torch.tanh(mean if noise is None else torch.addcmul(mean, log_std.exp(), noise))

    def sample(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """[..., actions] sampled with standard normal noise, and [...] −log of their densities."""
        mean, log_std = self.distribution(obs)
        x = torch.addcmul(mean, log_std.exp(), noise)
        return torch.tanh(x), -squashed_log_prob(x, noise, log_std)

    def sampler(self, normalizer: FrozenNormalizer) -> Callable[[Tensor, Tensor], Tensor]:
        """Return a function that samples actions from raw observations and noise, valid until the weights change."""
        return lambda obs, noise: self(normalizer(obs), noise)

    def entropy_sampler(self, normalizer: FrozenNormalizer) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return a function like that of `sampler`, which also returns the entropies −log π(a | s)."""
        return lambda obs, noise: self.sample(normalizer(obs), noise)


class ConstantStdActor(SquashedGaussian):
    """A policy whose log σ is a vector of weights, the same in all states."""

    def __init__(self, net: nn.Module, actions: int, log_std: float) -> None:
        super().__init__(net)
        self.log_std = nn.Parameter(torch.full((actions,), float(log_std)))

    def distribution(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """[..., actions] μ and log σ of the Gaussian before squashing."""
        mean = self.mean(obs)
        return mean, self.log_std.expand_as(mean)

    def mean(self, obs: Tensor) -> Tensor:
        """[..., actions] μ."""
        return self.net(obs)

    def forward(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        """[..., actions] in (-1, 1), sampled with standard normal `noise`, or the mode without it."""
        mean = self.mean(obs)
        return torch.tanh(mean if noise is None else torch.addcmul(mean, self.log_std.exp(), noise))


class StateStdActor(SquashedGaussian):
    """A policy whose network computes μ and log σ, which is clamped."""

    net: nn.Sequential

    def __init__(
        self,
        obs: int,
        actions: int,
        hidden: Sequence[int],
        *,
        function: str,
        log_std: float,
        bounds: tuple[float, float],
        rng: torch.Generator,
    ) -> None:
        """Weights are orthogonal; log σ is around `log_std` at first."""
        super().__init__(
            mlp([obs, *hidden, 2 * actions], function, rng=rng, last_gain=1.0, hidden_gain=1.0, layer_norm=True)
        )
        self.low, self.high = bounds
        self.function = function
        last = self.net[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.bias[actions:] = log_std

    def distribution(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """[..., actions] μ and log σ of the Gaussian before squashing."""
        return self.split(self.net(obs))

    def split(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return μ and log σ from the network's outputs."""
        mean, log_std = outputs.chunk(2, dim=-1)
        return mean, log_std.clamp(self.low, self.high)

    def mean_net(self) -> nn.Module:
        """Return a network that computes μ; hidden layers are shared."""
        last = self.net[-1]
        assert isinstance(last, nn.Linear)
        return first_outputs(self.net, last.out_features // 2)


class CustomActor(ConstantStdActor):
    """A policy whose μ is the user's network, which takes [B, obs] and returns [B, actions]."""

    def mean(self, obs: Tensor) -> Tensor:
        """[..., actions] μ; the network gets all observations as rows."""
        return self.net(obs.flatten(0, -2)).unflatten(0, obs.shape[:-1])


class Actor(ConstantStdActor):
    """A policy on normalized observations: linear, activation and layer norm for every hidden layer, then linear."""

    net: nn.Sequential

    def __init__(
        self,
        obs: int,
        actions: int,
        hidden: Sequence[int],
        *,
        log_std: float,
        rng: torch.Generator,
        function: str = "elu",
    ) -> None:
        super().__init__(mlp([obs, *hidden, actions], function, rng=rng, layer_norm=True), actions, log_std)
        self.function = function

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
