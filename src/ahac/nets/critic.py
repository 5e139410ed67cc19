"""Critics: the value of a state, as the minimum over an ensemble of one or more networks.

All weights of a network form one vector, so that an optimizer or a kernel handles one tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from ahac.nets.mlp import LAYER_NORM_EPS

__all__ = ["Critic", "CustomCritic", "Ensemble", "Head", "Hidden"]


class Head(NamedTuple):
    """The last layer of all members, as views into their weights."""

    weight: Tensor
    """[M, inputs, outputs]"""
    bias: Tensor
    """[M, outputs]"""


class Hidden(NamedTuple):
    """A hidden layer of all members, followed by ELU and layer norm."""

    weight: Tensor
    """[M, inputs, outputs]"""
    bias: Tensor
    """[M, outputs], like the scale and shift of the layer norm."""
    scale: Tensor
    shift: Tensor


class Ensemble(nn.Module):
    """V(s) of normalized observations, by an ensemble of M networks without shared weights."""

    def __init__(self, theta: Tensor) -> None:
        super().__init__()
        self.members = len(theta)
        self.theta = nn.Parameter(theta)
        """[M, size] weights."""

    def forward(self, obs: Tensor) -> Tensor:
        """[...] minimum over the members; gradients flow to the observations only."""
        values = self.values(obs.reshape(-1, obs.shape[-1]))
        return (values[0] if self.members == 1 else values.amin(dim=0)).reshape(obs.shape[:-1])

    def values(self, obs: Tensor) -> Tensor:
        """[M, B] values of [B, obs] by each member; gradients flow to the observations only."""
        return self._values(self.theta.detach(), obs)

    def losses(self, obs: Tensor, target: Tensor) -> Tensor:
        """[M] mean squared errors of the members on [B, obs] and [B]; gradients flow to the weights."""
        return (self._values(self.theta, obs) - target).square().mean(dim=1)

    def _values(self, theta: Tensor, obs: Tensor) -> Tensor:
        """[M, B] values of [B, obs] with these weights."""
        raise NotImplementedError


class CustomCritic(Ensemble):
    """An ensemble of the user's networks, which take [B, obs] and return [B] or [B, 1]."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        """Combine networks that have the same parameters, apart from their values."""
        super().__init__(torch.stack([nn.utils.parameters_to_vector(net.parameters()).detach() for net in networks]))
        self._shapes = {name: parameter.shape for name, parameter in networks[0].named_parameters()}
        # In a tuple, so that torch does not take its weights for ours; `theta` replaces them in every call.
        self._structure = (networks[0].requires_grad_(False),)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> CustomCritic:
        """Also move the buffers of the network to another device or precision."""
        self._structure[0]._apply(fn)
        return super()._apply(fn, recurse)

    def _values(self, theta: Tensor, obs: Tensor) -> Tensor:
        values = []
        for weights in theta.unbind():
            parts = weights.split([shape.numel() for shape in self._shapes.values()])
            named = {name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}
            values.append(functional_call(self._structure[0], named, (obs,)).reshape(len(obs)))
        return torch.stack(values)


class Critic(Ensemble):
    """An ensemble of multilayer perceptrons: an activation and layer norm after every hidden layer."""

    def __init__(
        self, obs: int, hidden: Sequence[int], *, members: int, rng: torch.Generator, function: str = "elu"
    ) -> None:
        widths = [obs, *hidden, 1]
        size = sum(a * b + b for a, b in pairwise(widths)) + 2 * sum(hidden)
        super().__init__(torch.zeros(members, size))
        self.widths = widths
        self.function = function
        self._activate = {"elu": functional.elu, "silu": functional.silu}[function]
        with torch.no_grad():
            layers, head = self.layers(self.theta)
            for member in range(members):
                for weight in (*(layer.weight for layer in layers), head.weight):
                    nn.init.orthogonal_(weight[member], math.sqrt(2.0), generator=rng)
            for layer in layers:
                layer.scale.fill_(1.0)

    def _values(self, theta: Tensor, obs: Tensor) -> Tensor:
        hidden, head = self.layers(theta)
        values = []
        for m in range(self.members):
            x = obs
            for layer in hidden:
                x = self._activate(torch.addmm(layer.bias[m], x, layer.weight[m]))
                x = functional.layer_norm(x, x.shape[-1:], layer.scale[m], layer.shift[m], LAYER_NORM_EPS)
            values.append(torch.addmm(head.bias[m], x, head.weight[m]).squeeze(-1))
        return torch.stack(values)

    def layers(self, theta: Tensor) -> tuple[list[Hidden], Head]:
        """Split [M, size] weights into the layers of all members, without copying."""
        layers, start = [], 0
        for k, (inputs, outputs) in enumerate(pairwise(self.widths)):
            sizes = [inputs * outputs, *[outputs] * (1 if k == len(self.widths) - 2 else 3)]
            weight, *rows = theta[:, start : start + sum(sizes)].split(sizes, dim=1)
            layers.append((weight.view(len(theta), inputs, outputs), *rows))
            start += sum(sizes)
        return [Hidden(*layer) for layer in layers[:-1]], Head(*layers[-1])
