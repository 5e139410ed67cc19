"""The mode of a policy as a plain list of layers, from raw observations to actions."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ahac.nets.normalizer import Normalizer

__all__ = ["Normalization", "first_outputs", "policy_layers"]


class Normalization(nn.Module):
    """(x − mean) · scale with fixed numbers, as the policy's normalizer computes it."""

    mean: Tensor
    scale: Tensor

    def __init__(self, normalizer: Normalizer) -> None:
        super().__init__()
        frozen = normalizer.frozen()
        self.register_buffer("mean", frozen.mean)
        self.register_buffer("scale", frozen.scale)

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] normalized observations."""
        return (x - self.mean) * self.scale


def policy_layers(normalizer: Normalizer, *modules: nn.Module) -> nn.Sequential:
    """Return the normalizer, if it is enabled, and the layers of all modules as one flat sequence."""
    first = [Normalization(normalizer)] if normalizer.enabled else []
    return nn.Sequential(*first, *(layer for module in modules for layer in _flat(module)))


def first_outputs(net: nn.Sequential, count: int) -> nn.Sequential:
    """Return a network that computes the first outputs of another one; hidden layers are shared."""
    *hidden, last = net
    assert isinstance(last, nn.Linear), "a network ends with a linear layer"
    part = nn.Linear(last.in_features, count, device=last.weight.device, dtype=last.weight.dtype)
    with torch.no_grad():
        part.weight.copy_(last.weight[:count])
        part.bias.copy_(last.bias[:count])
    return nn.Sequential(*hidden, part)


def _flat(module: nn.Module) -> Iterator[nn.Module]:
    if isinstance(module, nn.Sequential):
        for layer in module:
            yield from _flat(layer)
    elif not isinstance(module, nn.Identity):
        yield module
