"""Deterministic policies: a = tanh(μ(s))."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ahac.nets.mlp import mlp

__all__ = ["DeterministicActor"]


class DeterministicActor(nn.Module):
    """Actions in [−1, 1] of normalized observations, close to zero at first."""

    def __init__(
        self, obs: int, actions: int, *, hidden: Sequence[int], function: str, init_scale: float, rng: torch.Generator
    ) -> None:
        """`init_scale` is the standard deviation of the last layer's initial weights."""
        super().__init__()
        self.net = mlp([obs, *hidden, actions], function, rng=rng)
        last = self.net[-1]
        assert isinstance(last, nn.Linear), "a network ends with a linear layer"
        nn.init.normal_(last.weight, std=init_scale, generator=rng)
        nn.init.zeros_(last.bias)

    def forward(self, obs: Tensor) -> Tensor:
        """[..., actions] tanh(μ(s))."""
        return torch.tanh(self.net(obs))
