"""Elementwise comparison of derivatives with central differences.

A central difference has an error of eps² from curvature and of 1/eps from rounding; the best of several eps is used.
Where the one-sided slopes stay apart however small eps is, the function has a kink, and nothing is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.gradients.progress import Track, silent

__all__ = ["EPS", "Comparison", "compare"]

EPS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
"""Perturbations, largest first."""
SMALL = 1e-3
"""Smallest scale for relative errors, as a fraction of the output's largest derivative by inputs of the same kind."""
ROUNDING = 1e-6
"""Smallest scale for relative errors, as a fraction of the output itself; below it, rounding dominates."""
PERSISTS = 0.5
"""Fraction of the gap between the one-sided slopes that must remain at eps / 10 for a kink; 0.1 if smooth."""

Function = Callable[..., Tensor]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Comparison for S states, I input numbers and G groups of outputs."""

    error: Tensor
    """[S, I, G] relative error of the derivative; NaN at kinks."""
    kink: Tensor
    """[S, I, G] bool, whether the function has a kink."""


def compare(
    function: Function,
    inputs: Sequence[Tensor],
    groups: Sequence[int],
    tolerance: float,
    track: Track = silent,
    label: str = "differences",
) -> Comparison:
    """Compare the derivatives of a function with central differences.

    Args:
        function: Maps [S, width] tensors to [S, outputs], row by row.
        inputs: Where to compare.
        groups: Sizes of the groups of outputs, in order.
        tolerance: Relative error above which a gap between the one-sided slopes counts as a kink.
        track: Progress bar.
        label: Label of the progress bar.
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
    """Return values [S, outputs] and derivatives [S, I, outputs]."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    value = function(*leaves)
    rows = []
    for column in value.unbind(dim=-1):
        bars = torch.autograd.grad(column.sum(), leaves, retain_graph=True, materialize_grads=True)
        rows.append(torch.cat(bars, dim=-1))
    return value.detach(), torch.stack(rows, dim=-1)


@torch.no_grad()
def _perturbed(function: Function, inputs: Sequence[Tensor], track: Track, label: str) -> tuple[Tensor, Tensor]:
    """Return the values [E, S, I, outputs] with one input number increased, and decreased, by each eps."""
    columns = []
    for k, i in track([(k, i) for k, group in enumerate(inputs) for i in range(group.shape[1])], label):
        rows = []
        for eps in (*EPS, *(-eps for eps in EPS)):
            perturbed = inputs[k].clone()
            perturbed[:, i] += eps
            rows.append(function(*inputs[:k], perturbed, *inputs[k + 1 :]))
        columns.append(torch.stack(rows))
    plus, minus = torch.stack(columns, dim=2).split(len(EPS))
    return plus, minus
