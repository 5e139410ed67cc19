"""Derivatives against differences, number by number.

A central difference has an error of eps² from the curve and of 1/eps from rounding; the best of several eps counts.
Where the slopes on both sides stay apart however small eps is, the function has a kink, and nothing can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.gradients.progress import Track, silent

__all__ = ["EPS", "Comparison", "compare"]

EPS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
SMALL = 1e-3
"""Of the largest derivative of an output by inputs of a kind: what is smaller is measured against this."""
ROUNDING = 1e-6
"""Of an output itself: derivatives below are lost in rounding, or nearly."""
PERSISTS = 0.5
"""Share of the gap between the slopes of both sides that remains at a tenth of eps; of a smooth function, a tenth."""

Function = Callable[..., Tensor]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Of S states, I input numbers and G groups of outputs."""

    error: Tensor
    """[S, I, G] relative distance of derivative and difference; not a number on kinks."""
    kink: Tensor
    """[S, I, G] bool."""


def compare(
    function: Function,
    inputs: Sequence[Tensor],
    groups: Sequence[int],
    tolerance: float,
    track: Track = silent,
    label: str = "differences",
) -> Comparison:
    """Compare the derivatives of a function.

    Args:
        function: Of [S, width] tensors, each world by itself; returns [S, outputs].
        inputs: Where.
        groups: How many outputs belong together, in order.
        tolerance: Relative, above which a gap between both sides may be a kink.
        track: Shows how far it is.
        label: What it then says.
    """
    value, derivative = _derivatives(function, inputs)
    plus, minus = _perturbed(function, inputs, track, label)
    eps = torch.tensor(EPS, dtype=torch.float64)[:, None, None, None]
    central = (plus - minus) / (2.0 * eps)
    gap = (plus - 2.0 * value[:, None, :] + minus) / eps
    widths = [x.shape[1] for x in inputs if x.shape[1] > 0]  # a robot without actuators has no controls
    errors, kinks = [], []
    for part in torch.arange(value.shape[1]).split(list(groups)):
        size = central[..., part].norm(dim=-1)  # [E, S, I]
        largest = torch.cat([s.amax(dim=-1, keepdim=True).expand_as(s) for s in size.split(widths, dim=-1)], dim=-1)
        floor = ROUNDING * (1.0 + value[:, part].norm(dim=-1))[None, :, None]
        scale = torch.maximum(torch.maximum(size, SMALL * largest), floor)
        distance = (central - derivative)[..., part].norm(dim=-1)
        error = (distance / scale).nan_to_num(nan=torch.inf).amin(dim=0)
        apart = gap[-2:, ..., part].norm(dim=-1)
        kink = (error > tolerance) & (apart[1] > tolerance * scale[-1]) & (apart[1] > PERSISTS * apart[0])
        errors.append(torch.where(kink, torch.nan, error))
        kinks.append(kink)
    return Comparison(torch.stack(errors, dim=-1), torch.stack(kinks, dim=-1))


def _derivatives(function: Function, inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Values [S, outputs] and derivatives [S, I, outputs]."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    value = function(*leaves)
    rows = []
    for column in value.unbind(dim=-1):
        bars = torch.autograd.grad(column.sum(), leaves, retain_graph=True, materialize_grads=True)
        rows.append(torch.cat(bars, dim=-1))
    return value.detach(), torch.stack(rows, dim=-1)


@torch.no_grad()
def _perturbed(function: Function, inputs: Sequence[Tensor], track: Track, label: str) -> tuple[Tensor, Tensor]:
    """[E, S, I, outputs] values when one input number is larger, and when it is smaller, by each eps."""
    columns = []
    for k, i in track([(k, i) for k, group in enumerate(inputs) for i in range(group.shape[1])], label):
        rows = []
        for eps in (*EPS, *(-eps for eps in EPS)):
            moved = inputs[k].clone()
            moved[:, i] += eps
            rows.append(function(*inputs[:k], moved, *inputs[k + 1 :]))
        columns.append(torch.stack(rows))
    plus, minus = torch.stack(columns, dim=2).split(len(EPS))
    return plus, minus
