"""Critics: the value of a state, by one network or by the more cautious of two.

Fitting a critic is most of the work of an iteration. So all weights of a network are one vector, and the gradient of
the regression is written out, by the operations that torch's own derivatives consist of: no graph is built, and an
optimizer has one tensor to look after. A test holds it against autograd.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Critic"]

EPS = 1e-5
"""Of layer norms."""
DATA_ALONE = [True, False, False]
"""Of a layer norm's derivatives, the one by its input."""
aten = torch.ops.aten


class _Head(NamedTuple):
    """Views into the weights of all members, or into their gradients; members first."""

    weight: Tensor
    """[M, inputs, outputs]"""
    bias: Tensor
    """[M, 1, outputs]"""


class _Hidden(NamedTuple):
    """The same of a layer with a layer norm behind it."""

    weight: Tensor
    bias: Tensor
    scale: Tensor
    """[M, 1, outputs], as are the others."""
    shift: Tensor


class _Trace(NamedTuple):
    """What a hidden layer's derivative needs; [M, B, outputs] but for the inputs."""

    inputs: Tensor
    active: Tensor
    normal: Tensor
    """The same at zero mean and unit variance."""
    mean: Tensor
    spread: Tensor


class Critic(nn.Module):
    """V(s) of normalised observations, by M networks that never share a weight."""

    def __init__(self, obs: int, hidden: Sequence[int], *, members: int, rng: torch.Generator) -> None:
        super().__init__()
        self.members = members
        self.widths = [obs, *hidden, 1]
        size = sum(a * b + b for a, b in pairwise(self.widths)) + 2 * sum(hidden)
        self.theta = nn.Parameter(torch.zeros(members, size))
        with torch.no_grad():
            layers, head = self._layers(self.theta)
            for member in range(members):
                for weight in (*(layer.weight for layer in layers), head.weight):
                    nn.init.orthogonal_(weight[member], math.sqrt(2.0), generator=rng)
            for layer in layers:
                layer.scale.fill_(1.0)

    def values(self, obs: Tensor) -> Tensor:
        """[M, B] what every member says of [B, obs]; gradients flow through the observations alone."""
        return torch.stack([self._value(member, obs) for member in range(self.members)])

    def forward(self, obs: Tensor) -> Tensor:
        """[...] the least of what the members say."""
        values = self.values(obs.reshape(-1, obs.shape[-1]))
        return (values[0] if self.members == 1 else values.amin(dim=0)).reshape(obs.shape[:-1])

    @torch.no_grad()
    def regress(self, obs: Tensor, target: Tensor) -> Tensor:
        """[M] mean squared errors on [B, obs] and [B]; their gradients are written to `theta.grad`."""
        if self.theta.grad is None:
            self.theta.grad = torch.zeros_like(self.theta)
        hidden, head = self._layers(self.theta)
        hidden_bars, head_bar = self._layers(self.theta.grad)
        traces, x = [], obs.expand(self.members, *obs.shape)
        for layer in hidden:
            active = functional.elu(torch.baddbmm(layer.bias, x, layer.weight), inplace=True)
            normal, mean, spread = aten.native_layer_norm(active, active.shape[-1:], None, None, EPS)
            traces.append(_Trace(x, active, normal, mean, spread))
            x = layer.shift.addcmul(normal, layer.scale)
        error = torch.baddbmm(head.bias, x, head.weight).squeeze(-1) - target
        bar = (error * (2.0 / len(target)))[..., None]
        head_bar.weight.copy_(x.mT @ bar)
        head_bar.bias.copy_(bar.sum(dim=1, keepdim=True))
        bar = bar * head.weight.mT
        for k in reversed(range(len(hidden))):
            layer = hidden[k]
            trace = traces[k]
            bars = hidden_bars[k]
            bars.shift.copy_(bar.sum(dim=1, keepdim=True))
            bars.scale.copy_((bar * trace.normal).sum(dim=1, keepdim=True))
            bar = aten.native_layer_norm_backward(
                bar * layer.scale, trace.active, bar.shape[-1:], trace.mean, trace.spread, None, None, DATA_ALONE
            )[0]
            bar = aten.elu_backward(bar, 1.0, 1.0, 1.0, True, trace.active)
            bars.weight.copy_(trace.inputs.mT @ bar)
            bars.bias.copy_(bar.sum(dim=1, keepdim=True))
            if k:
                bar = bar @ layer.weight.mT
        return error.square().mean(dim=1)

    def _value(self, member: int, obs: Tensor) -> Tensor:
        hidden, head = self._layers(self.theta.detach()[member][None])
        x = obs
        for layer in hidden:
            x = functional.elu(torch.addmm(layer.bias[0, 0], x, layer.weight[0]))
            x = functional.layer_norm(x, x.shape[-1:], layer.scale[0, 0], layer.shift[0, 0], EPS)
        return torch.addmm(head.bias[0, 0], x, head.weight[0]).squeeze(-1)

    def _layers(self, theta: Tensor) -> tuple[list[_Hidden], _Head]:
        """All members' layers, as views into their [M, size] vectors."""
        parts, start = [], 0
        for k, (inputs, outputs) in enumerate(pairwise(self.widths)):
            sizes = [inputs * outputs, *[outputs] * (1 if k == len(self.widths) - 2 else 3)]
            weight, *rows = theta[:, start : start + sum(sizes)].split(sizes, dim=1)
            parts.append((weight.view(len(theta), inputs, outputs), *(row[:, None] for row in rows)))
            start += sum(sizes)
        return [_Hidden(*part) for part in parts[:-1]], _Head(*parts[-1])
