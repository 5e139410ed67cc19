"""Categorical distributions of returns (C51): projection of targets, expected values and loss, as pure functions.

A distribution has K probabilities of the returns z_i = v_min + i Δ, the atoms. Nothing here adds with atomic
operations, so that results on CUDA do not depend on the order of threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["Support", "categorical_loss", "expected_value", "lower_distribution", "project"]


@dataclass(frozen=True)
class Support:
    """Evenly spaced atoms from `v_min` to `v_max`."""

    v_min: float
    v_max: float
    count: int

    @property
    def spacing(self) -> float:
        """Distance Δ between two atoms."""
        return (self.v_max - self.v_min) / (self.count - 1)

    def atoms(self, like: Tensor) -> Tensor:
        """Return the [K] atoms on the device and with the type of another tensor."""
        return torch.linspace(self.v_min, self.v_max, self.count, device=like.device, dtype=like.dtype)


def expected_value(probability: Tensor, support: Support) -> Tensor:
    """Return [...] Σ_i p_i z_i of [..., K] probabilities."""
    return probability @ support.atoms(probability)


def lower_distribution(probability: Tensor, support: Support) -> Tensor:
    """Return [B, K]: of [M, B, K] distributions, that with the lower expected value for each sample."""
    best = expected_value(probability, support).argmin(dim=0)
    return probability.gather(0, best[None, :, None].expand(1, -1, support.count))[0]


def categorical_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Return Σ over members of the mean cross-entropy −Σ_i target_i log p_i of [M, B, K] logits."""
    return -(target * functional.log_softmax(logits, dim=-1)).sum(dim=-1).mean(dim=-1).sum()


def project(
    probability: Tensor, reward: Tensor, discount: Tensor, support: Support, least_discount: float
) -> tuple[Tensor, Tensor]:
    """Return the [B, K] distribution of r + γ Z on the atoms, and the [B] probability that was beyond them.

    A return between two atoms is split between them in proportion to its distance from the other one; a return beyond
    the support goes to its end. With b_j = (r + γ z_j − v_min) / Δ:

        m_i = Σ_j p_j max(0, 1 − |clip(b_j, 0, K − 1) − i|)

    The b_j are evenly spaced, so only some neighboring j contribute to an atom, and those are gathered.

    Args:
        probability: [B, K] distribution of Z.
        reward: [B] r.
        discount: [B] γ; 0 where the episode has terminated.
        support: The atoms.
        least_discount: Lower bound of the discounts that are not 0.
    """
    last = support.count - 1
    start = (reward + (discount - 1.0) * support.v_min)[:, None] / support.spacing
    ended = (discount == 0.0)[:, None]
    # All b_j are equal then: the same as one atom that has all of the probability.
    stride = torch.where(ended, 1.0, discount[:, None])
    index = torch.arange(support.count, device=reward.device)
    probability = torch.where(ended, (index == 0).to(probability.dtype), probability)
    position = start + stride * index
    below, above = position < 0.0, position > last
    inside = probability.masked_fill(below | above, 0.0)
    candidates = _candidates(support.count, least_discount)
    # Cast before clamping: whatever a non-finite number becomes, the index is valid.
    first = ((index - 1 - start) / stride).floor().long().clamp(0, support.count - candidates)
    result = torch.zeros_like(probability)
    for k in range(candidates):
        source = first + k
        weight = (1.0 - (start + stride * source - index).abs()).clamp(min=0.0)
        result += weight * inside.gather(-1, source)
    too_low, too_high = ((probability * side).sum(dim=-1) for side in (below, above))
    result[:, 0] += too_low
    result[:, -1] += too_high
    return result, too_low + too_high


def _candidates(count: int, least_discount: float) -> int:
    """Return how many neighboring atoms can contribute to one: those within ± 1, and one more on each side to round."""
    return count if least_discount * count <= 2.0 else min(count, math.ceil(2.0 / least_discount) + 2)
