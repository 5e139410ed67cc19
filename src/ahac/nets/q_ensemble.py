"""Q(s, a) by an ensemble of networks without shared weights: values or distributions.

Each member has matrix products of its own: batched ones are slower on CUDA, with biases and for weight gradients
(docs/performance/gpu-kernels.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from ahac.nets.mlp import activation, fill_uniform

__all__ = ["CategoricalQEnsemble", "NetworkEnsemble", "QEnsemble"]


class NetworkEnsemble(nn.Module):
    """M networks on normalized observations and actions; their weights are stacked, [M, inputs, outputs]."""

    def __init__(
        self,
        obs: int,
        actions: int,
        *,
        hidden: Sequence[int],
        function: str,
        rng: torch.Generator,
        members: int = 2,
        outputs: int = 1,
    ) -> None:
        super().__init__()
        self.members = members
        self.function = activation(function)
        shapes = list(pairwise([obs + actions, *hidden, outputs]))
        self.weights = nn.ParameterList(nn.Parameter(torch.empty(members, a, b)) for a, b in shapes)
        self.biases = nn.ParameterList(nn.Parameter(torch.empty(members, 1, b)) for _, b in shapes)
        for (inputs, _), *layer in zip(shapes, self.weights, self.biases, strict=True):
            fill_uniform(layer, 1.0 / math.sqrt(inputs), rng)

    def outputs(self, obs: Tensor, action: Tensor) -> Tensor:
        """Return [M, B, outputs] of the last layers for [B, obs] and [B, actions]."""
        x = torch.cat([obs, action], dim=-1)
        weights = zip(*(weight.unbind() for weight in self.weights), strict=True)
        biases = zip(*(bias.squeeze(1).unbind() for bias in self.biases), strict=True)
        return torch.stack([self._member(x, *layers) for layers in zip(weights, biases, strict=True)])

    def _member(self, x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
        for k, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            x = torch.addmm(bias, x, weight)
            if k < len(weights) - 1:
                x = self.function(x)
        return x


class QEnsemble(NetworkEnsemble):
    """M networks with one output each, the value."""

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """[M, B] Q values of [B, obs] and [B, actions] by each member."""
        return self.outputs(obs, action).squeeze(-1)

    def min_q(self, obs: Tensor, action: Tensor) -> Tensor:
        """[B] minimum over the members."""
        return self(obs, action).amin(dim=0)


class CategoricalQEnsemble(NetworkEnsemble):
    """M networks whose outputs are logits of the atoms of a distribution of returns."""

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """[M, B, atoms] logits of [B, obs] and [B, actions] by each member."""
        return self.outputs(obs, action)

    def probabilities(self, obs: Tensor, action: Tensor) -> Tensor:
        """[M, B, atoms] probabilities by each member."""
        return self(obs, action).softmax(dim=-1)
