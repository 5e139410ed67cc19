"""Critics: the value of a state, by one network or by the more cautious of two.

Fitting a critic is most of the work of an iteration. So all weights of a network are one vector, and the gradient of
the regression is written out, by the operations that torch's own derivatives consist of: no graph is built, and an
optimizer has one tensor to look after. A test holds it against autograd.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ahac.nets.streams import side_by_side

__all__ = ["Critic"]

EPS = 1e-5
"""Of layer norms."""
aten = torch.ops.aten


class _Layer(NamedTuple):
    """Views into a network's vector of weights, or of their gradients."""

    weight: Tensor
    bias: Tensor
    scale: Tensor | None
    shift: Tensor | None


class _Trace(NamedTuple):
    """What a hidden layer's derivative needs."""

    inputs: Tensor
    active: Tensor
    mean: Tensor
    spread: Tensor


class Critic(nn.Module):
    """V(s) of normalised observations, by M networks that never share a weight."""

    def __init__(self, obs: int, hidden: Sequence[int], *, members: int, rng: torch.Generator) -> None:
        super().__init__()
        self.members, self.widths = members, [obs, *hidden, 1]
        size = sum(a * b + b for a, b in pairwise(self.widths)) + 2 * sum(hidden)
        self.theta = nn.Parameter(torch.zeros(members, size))
        with torch.no_grad():
            for member in self.theta:
                for layer in self._layers(member):
                    nn.init.orthogonal_(layer.weight, math.sqrt(2.0), generator=rng)
                    if layer.scale is not None:
                        layer.scale.fill_(1.0)

    def each(self, obs: Tensor) -> Tensor:
        """[M, B] what every member says of [B, obs]; gradients flow through the observations alone."""
        return torch.stack([self._value(member, obs) for member in self.theta.detach()])

    def forward(self, obs: Tensor) -> Tensor:
        """[...] the least of what the members say."""
        values = self.each(obs.reshape(-1, obs.shape[-1]))
        return (values[0] if self.members == 1 else values.amin(dim=0)).reshape(obs.shape[:-1])

    @torch.no_grad()
    def regress(self, obs: Tensor, target: Tensor) -> Tensor:
        """[M] mean squared errors on [B, obs] and [B]; their gradients are written to `theta.grad`."""
        if self.theta.grad is None:
            self.theta.grad = torch.zeros_like(self.theta)
        pairs = zip(self.theta, self.theta.grad, strict=True)
        works = [partial(self._regress, theta, grad, obs, target) for theta, grad in pairs]
        return torch.stack(side_by_side(works, obs.device))

    def _regress(self, theta: Tensor, grad: Tensor, obs: Tensor, target: Tensor) -> Tensor:
        *hidden, head = self._layers(theta)
        *hidden_bars, head_bar = self._layers(grad)
        traces, x = [], obs
        for layer in hidden:
            active = functional.elu(torch.addmm(layer.bias, x, layer.weight), inplace=True)
            y, mean, spread = aten.native_layer_norm(active, layer.bias.shape, layer.scale, layer.shift, EPS)
            traces.append(_Trace(x, active, mean, spread))
            x = y
        error = torch.addmm(head.bias, x, head.weight).squeeze(-1) - target
        bar = (error * (2.0 / len(error)))[:, None]
        torch.mm(x.t(), bar, out=head_bar.weight)
        torch.sum(bar, dim=0, out=head_bar.bias)
        bar = bar * head.weight.t()
        for k in reversed(range(len(hidden))):
            layer, trace, bars = hidden[k], traces[k], hidden_bars[k]
            bar, scale_bar, shift_bar = aten.native_layer_norm_backward(
                bar, trace.active, layer.bias.shape, trace.mean, trace.spread, layer.scale, layer.shift, [True] * 3
            )
            if bars.scale is not None and bars.shift is not None:
                bars.scale.copy_(scale_bar)
                bars.shift.copy_(shift_bar)
            bar = aten.elu_backward(bar, 1.0, 1.0, 1.0, True, trace.active)
            torch.mm(trace.inputs.t(), bar, out=bars.weight)
            torch.sum(bar, dim=0, out=bars.bias)
            if k:
                bar = bar @ layer.weight.t()
        return error.square().mean()

    def _value(self, theta: Tensor, obs: Tensor) -> Tensor:
        *hidden, head = self._layers(theta)
        x = obs
        for layer in hidden:
            x = functional.elu(torch.addmm(layer.bias, x, layer.weight))
            x = functional.layer_norm(x, layer.bias.shape, layer.scale, layer.shift, EPS)
        return torch.addmm(head.bias, x, head.weight).squeeze(-1)

    def _layers(self, theta: Tensor) -> list[_Layer]:
        """A network's layers, as views into its vector."""
        layers, start = [], 0
        for inputs, outputs in pairwise(self.widths):
            sizes = [inputs * outputs, outputs, outputs, outputs]
            last = len(layers) == len(self.widths) - 2
            parts = theta[start : start + sum(sizes[: 2 if last else 4])].split(sizes[: 2 if last else 4])
            scale, shift = (None, None) if last else (parts[2], parts[3])
            layers.append(_Layer(parts[0].view(inputs, outputs), parts[1], scale, shift))
            start += sum(len(part) for part in parts)
        return layers
