"""Fitting a critic to targets: passes over the rollout's states in minibatches, until a rule says stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.nets.descent import Descent

__all__ = ["CriticFit", "FitReport", "Plateau", "StopRule", "never"]

StopRule = Callable[[list[float]], bool]
"""From the losses of the passes so far to whether another one is not worth it."""


def never(losses: list[float]) -> bool:
    """Never stop before the last pass."""
    return False


@dataclass(frozen=True)
class Plateau:
    """Stop when the loss has stopped changing: |mean difference of the last five losses| below a tolerance.

    The paper's text sums losses, its appendix sums differences; the released code takes the mean of the differences,
    after at least six passes. This is that rule.
    """

    tolerance: float = 0.2

    def __call__(self, losses: list[float]) -> bool:
        """Whether the last five losses before the latest pass have flattened out."""
        if len(losses) < 6:
            return False
        window = losses[-6:-1]
        change = abs(window[-1] - window[0]) / 4.0
        return change < self.tolerance


@dataclass(frozen=True)
class FitReport:
    """How a fit went."""

    loss: float
    """Mean squared error of the last pass."""
    passes: int


class CriticFit:
    """Regression of a critic on targets."""

    def __init__(
        self, descend: Descent, *, passes: int, minibatches: int, stop: StopRule, rng: torch.Generator,
        shuffle: bool = True,
    ) -> None:  # fmt: skip
        self.descend, self.passes, self.minibatches, self.stop = descend, passes, minibatches, stop
        self.rng, self.shuffle = rng, shuffle

    def __call__(self, obs: Tensor, target: Tensor) -> FitReport:
        """Fit to [B, obs] states and [B] targets."""
        losses: list[float] = []
        parts = min(self.minibatches, len(obs))
        while len(losses) < self.passes:
            losses.append(self.descend(obs, target, self._order(obs), parts).mean().item())
            if self.stop(losses):
                break
        return FitReport(losses[-1], len(losses))

    def _order(self, obs: Tensor) -> Tensor:
        """In which a pass takes the states."""
        if self.shuffle:
            return torch.randperm(len(obs), generator=self.rng, device=obs.device)
        return torch.arange(len(obs), device=obs.device)
