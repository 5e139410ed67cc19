"""Policies for soft actor-critic methods: squashed Gaussians whose standard deviation depends on the state."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ahac.nets.gaussian import squashed_log_prob
from ahac.nets.mlp import mlp

__all__ = ["SACActor"]


class SACActor(nn.Module):
    """a = tanh(μ(s) + σ(s) ε) of normalized observations."""

    def __init__(
        self,
        obs: int,
        actions: int,
        *,
        hidden: Sequence[int],
        function: str,
        log_std: tuple[float, float],
        rng: torch.Generator,
    ) -> None:
        """`log_std` are the bounds that log σ is clamped to."""
        super().__init__()
        self.net = mlp([obs, *hidden, 2 * actions], function, rng=rng)
        self.low, self.high = log_std

    def forward(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """[..., actions] sampled with standard normal noise, and [...] their log densities."""
        x, log_std = self._unsquashed(obs, noise)
        return torch.tanh(x), squashed_log_prob(x, noise, log_std)

    def sample(self, obs: Tensor, noise: Tensor) -> Tensor:
        """[..., actions] sampled like `forward`, without densities."""
        return torch.tanh(self._unsquashed(obs, noise)[0])

    def mode(self, obs: Tensor) -> Tensor:
        """[..., actions] tanh(μ(s))."""
        return torch.tanh(self.net(obs).chunk(2, dim=-1)[0])

    def _unsquashed(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return μ + σ ε before squashing, and log σ."""
        mean, log_std = self.net(obs).chunk(2, dim=-1)
        log_std = log_std.clamp(self.low, self.high)
        return torch.addcmul(mean, log_std.exp(), noise), log_std
