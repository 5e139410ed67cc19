"""Multilayer perceptrons: linear layers with an activation, and optionally a layer norm, between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from ahac.core.errors import InputError

__all__ = ["ACTIVATIONS", "LAYER_NORM_EPS", "Activation", "activation", "fill_uniform", "mlp"]

Activation = Literal["elu", "silu", "tanh", "relu"]
ACTIVATIONS: tuple[str, ...] = get_args(Activation)
LAYER_NORM_EPS = 1e-5
"""Added to the variance in layer norms, here, in the critic and in the kernels."""


def activation(name: str, *, inplace: bool = True) -> nn.Module:
    """Return the activation with the given name as a layer."""
    if name not in ACTIVATIONS:
        raise InputError(f"no activation named {name!r}; known: {', '.join(ACTIVATIONS)}")
    layers = {"elu": nn.ELU(inplace=inplace), "silu": nn.SiLU(inplace=inplace), "tanh": nn.Tanh()}
    return layers[name] if name in layers else nn.ReLU(inplace=inplace)


def mlp(
    widths: Sequence[int],
    function: str,
    *,
    rng: torch.Generator,
    last_gain: float | None = None,
    hidden_gain: float = math.sqrt(2.0),
    layer_norm: bool = False,
) -> nn.Sequential:
    """Return a network with layers of the given widths, inputs first.

    Args:
        widths: Numbers of inputs, of units in each hidden layer, and of outputs.
        function: Name of the activation of the hidden layers.
        rng: Generator that all weights come from.
        last_gain: By default weights and biases are uniform in ± 1/√inputs, as in torch. With a gain, weights are
            orthogonal with this gain in the last layer, and biases are zero, as is usual for policy-gradient methods.
        hidden_gain: Gain of the hidden layers if the last one has a gain.
        layer_norm: Whether a layer norm follows each activation.
    """
    layers: list[nn.Module] = []
    for k, (inputs, outputs) in enumerate(pairwise(widths)):
        last = k == len(widths) - 2
        linear = nn.Linear(inputs, outputs)
        if last_gain is None:
            fill_uniform(linear.parameters(), 1.0 / math.sqrt(inputs), rng)
        else:
            nn.init.orthogonal_(linear.weight, last_gain if last else hidden_gain, generator=rng)
            nn.init.zeros_(linear.bias)
        layers.append(linear)
        if last:
            continue
        if layer_norm:
            # Not in place: the gradient of an in-place ELU rounds differently, and recorded results would change.
            layers += [activation(function, inplace=False), nn.LayerNorm(outputs, eps=LAYER_NORM_EPS)]
        else:
            layers.append(activation(function))
    return nn.Sequential(*layers)


@torch.no_grad()
def fill_uniform(parameters: Iterable[Tensor], bound: float, rng: torch.Generator) -> None:
    """Fill parameters in place with uniform samples in ± bound."""
    for parameter in parameters:
        parameter.uniform_(-bound, bound, generator=rng)
