"""Layers of one or several networks of the same shape, computed together: members come first, [M, batch, features]."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Dense", "Ensemble"]


class Dense(nn.Module):
    """x W + b, for M members at once."""

    def __init__(self, members: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """[M, B, outputs] of [M, B, inputs]."""
        return torch.baddbmm(self.bias, x, self.weight)

    @torch.no_grad()
    def fill_uniform(self, rng: torch.Generator) -> None:
        """Uniform in ± 1/√inputs, weights and biases: torch's own rule for linear layers."""
        bound = 1.0 / math.sqrt(self.weight.shape[1])
        for parameter in (self.weight, self.bias):
            parameter.uniform_(-bound, bound, generator=rng)

    @torch.no_grad()
    def fill_orthogonal(self, gain: float, rng: torch.Generator) -> None:
        """Orthogonal weights of every member, zero biases."""
        for member in self.weight:
            nn.init.orthogonal_(member, gain, generator=rng)
        self.bias.zero_()


class Ensemble(nn.Module):
    """M networks of the same shape: dense, ELU, layer norm for every hidden layer, then dense."""

    def __init__(self, members: int, inputs: int, hidden: Sequence[int], outputs: int) -> None:
        super().__init__()
        widths = [inputs, *hidden]
        self.dense = nn.ModuleList([Dense(members, a, b) for a, b in itertools.pairwise(widths)])
        self.scale = nn.ParameterList([torch.ones(members, 1, width) for width in hidden])
        self.shift = nn.ParameterList([torch.zeros(members, 1, width) for width in hidden])
        self.head = Dense(members, widths[-1], outputs)

    def forward(self, x: Tensor) -> Tensor:
        """[M, B, outputs] of [M, B, inputs]."""
        for dense, scale, shift in zip(self.dense, self.scale, self.shift, strict=True):
            x = functional.elu(dense(x))
            x = functional.layer_norm(x, x.shape[-1:]) * scale + shift
        return self.head(x)

    def layers(self) -> list[Dense]:
        """All dense layers, in order."""
        return [*self.dense, self.head]  # pyright: ignore[reportReturnType]
