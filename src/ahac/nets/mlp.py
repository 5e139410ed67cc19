"""Plain multilayer perceptrons: linear layers with one activation between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from ahac.core.errors import InputError

__all__ = ["ACTIVATIONS", "Activation", "activation", "fill_uniform", "mlp"]

Activation = Literal["elu", "tanh", "relu"]
ACTIVATIONS: tuple[str, ...] = get_args(Activation)


def activation(name: str) -> nn.Module:
    """The function of that name, as a layer."""
    if name not in ACTIVATIONS:
        raise InputError(f"no activation named {name!r}; known: {', '.join(ACTIVATIONS)}")
    return {"elu": nn.ELU(inplace=True), "tanh": nn.Tanh(), "relu": nn.ReLU(inplace=True)}[name]


def mlp(widths: Sequence[int], function: str, *, rng: torch.Generator, last_gain: float | None = None) -> nn.Sequential:
    """Layers of these widths, inputs first.

    Weights are uniform in ± 1/√inputs, as torch has them. With `last_gain` they are orthogonal, hidden layers with
    gain √2, the last one with its own, and biases zero: what policy-gradient methods begin best with.
    """
    layers: list[nn.Module] = []
    for k, (inputs, outputs) in enumerate(pairwise(widths)):
        last = k == len(widths) - 2
        linear = nn.Linear(inputs, outputs)
        if last_gain is None:
            fill_uniform(linear.parameters(), 1.0 / math.sqrt(inputs), rng)
        else:
            nn.init.orthogonal_(linear.weight, last_gain if last else math.sqrt(2.0), generator=rng)
            nn.init.zeros_(linear.bias)
        layers += [linear] if last else [linear, activation(function)]
    return nn.Sequential(*layers)


@torch.no_grad()
def fill_uniform(parameters: Iterable[Tensor], bound: float, rng: torch.Generator) -> None:
    """Uniform in ± bound, from a generator of ours."""
    for parameter in parameters:
        parameter.uniform_(-bound, bound, generator=rng)
