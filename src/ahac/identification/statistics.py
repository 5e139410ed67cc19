"""What a fit says about its parameters: standard errors, combinations that stay unknown, and correlated residuals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Combination", "autocorrelation", "covariance", "undetermined"]

CLUSTERS = 5
"""Number of segments from which on the spread between segments counts."""
UNKNOWN = 1.0
"""Standard error, relative to the parameters' scale, from which on a combination counts as undetermined."""
SHOWN = 0.2
"""Share of the largest coefficient below which a parameter is left out of a combination."""


@dataclass(frozen=True)
class Combination:
    """A direction in the space of parameters, relative to their scales, that the data do not determine."""

    labels: tuple[str, ...]
    """Labels of the parameters."""
    coefficients: tuple[float, ...]
    """Their shares of the direction, in the order of `labels`."""
    deviation: float
    """Standard error along the direction, relative to the scales of the parameters; infinite if nothing is known."""

    def __str__(self) -> str:
        if len(self.labels) == 1:
            return self.labels[0]
        first, *rest = zip(self.coefficients, self.labels, strict=True)
        terms = [f"{first[0]:.2f} {first[1]}", *(f"{'+' if c > 0 else '−'} {abs(c):.2f} {name}" for c, name in rest)]
        return " ".join(terms)


def covariance(information: Tensor, gradients: Tensor, prior: Tensor, samples: int, unknowns: int) -> Tensor:
    """Return the covariance [P, P] of the estimates.

    It is the inverse of the information matrix. Residuals that are correlated in time carry less information than their
    number suggests. Gradients of the segments then differ more than the information matrix predicts, and a parameter's
    variance is the larger of both estimates (the second is known as the sandwich or cluster-robust estimate).

    Args:
        information: [S, P, P] information matrices of the segments.
        gradients: [S, P] gradients of the segments at the estimate.
        prior: [P, P] information matrix of the prior.
        samples: Number of residuals.
        unknowns: Number of unknowns, starts included.
    """
    inverse = torch.linalg.pinv(information.sum(dim=0) + prior, hermitian=True)
    white = inverse * (samples / max(1, samples - unknowns))
    count = len(gradients)
    if count < CLUSTERS:
        return white
    centered = gradients - gradients.mean(dim=0)
    spread = inverse @ (centered.T @ centered) @ inverse * (count / (count - 1))
    widening = (spread.diagonal() / white.diagonal()).clamp_min(1.0).sqrt()
    return white * widening[:, None] * widening


def undetermined(information: Tensor, scale: Tensor, labels: Sequence[str]) -> tuple[list[Combination], Tensor]:
    """Return the combinations of parameters that the data determine worse than to 100 % of the parameters' scales.

    Parameters that do not affect the data are listed first, then combinations of few others that span the weak
    eigenvectors of their information matrix. The eigenvectors themselves may mix unrelated combinations, and do so
    differently on every machine if their eigenvalues are nearly equal.

    Returns:
        The combinations, and orthonormal vectors [n, P] that span the same space, relative to the scales.
    """
    scaled = information * scale[:, None] * scale
    single = scaled.diagonal() < UNKNOWN**-2
    alone = torch.nonzero(single).flatten()
    others = torch.nonzero(~single).flatten()
    values, vectors = torch.linalg.eigh(scaled[others][:, others])
    weak = values < UNKNOWN**-2
    directions = scaled.new_zeros(len(alone) + int(weak.sum()), len(labels))
    directions[torch.arange(len(alone)), alone] = 1.0
    directions[len(alone) :, others] = vectors.T[weak]
    shown = torch.cat([directions[: len(alone)], _sparse_basis(directions[len(alone) :])])
    strengths = ((shown @ scaled) * shown).sum(dim=1).clamp_min(0.0)
    found = [_combination(row, float(x.rsqrt()), labels) for row, x in zip(shown, strengths, strict=True)]
    return found, directions


def _sparse_basis(vectors: Tensor) -> Tensor:
    """Return unit vectors [n, P] that span the same space, each with a parameter that the others do not contain.

    This is the reduced row echelon form with the largest coefficients as pivots. It does not depend on the given basis,
    up to the choice between equal pivots.
    """
    rows = vectors.clone()
    for k in range(len(rows)):
        row, column = divmod(int(rows[k:].abs().argmax()), rows.shape[1])
        rows[[k, k + row]] = rows[[k + row, k]]
        rows[k] /= rows[k, column].clone()
        factors = rows[:, column].clone()
        factors[k] = 0.0
        rows -= factors[:, None] * rows[k]
    return rows / rows.norm(dim=1, keepdim=True)


def _combination(direction: Tensor, deviation: float, labels: Sequence[str]) -> Combination:
    """Return the largest coefficients of a direction, the first of them positive."""
    order = direction.abs().argsort(descending=True)
    shown = [int(i) for i in order if direction[i].abs() >= SHOWN * direction.abs().max()]
    sign = float(direction[shown[0]].sign())
    return Combination(tuple(labels[i] for i in shown), tuple(sign * float(direction[i]) for i in shown), deviation)


def autocorrelation(residuals: Tensor) -> Tensor:
    """Return the correlation of consecutive residuals [channels], from residuals [K + 1, S, channels]."""
    product = (residuals[1:] * residuals[:-1]).sum(dim=(0, 1))
    power = 0.5 * (residuals[1:] ** 2 + residuals[:-1] ** 2).sum(dim=(0, 1))
    return product / power.clamp_min(torch.finfo(residuals.dtype).tiny)
