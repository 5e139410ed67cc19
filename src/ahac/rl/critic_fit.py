"""Fitting a critic to targets: passes over the rollout's states in minibatches, until a rule says stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ahac.nets.critic import Critic

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
    after at least six passes. This is that rule, relative to the loss where `relative` is set.
    """

    tolerance: float = 0.2
    relative: bool = False

    def __call__(self, losses: list[float]) -> bool:
        """Whether the last five losses before the latest pass have flattened out."""
        if len(losses) < 6:
            return False
        window = losses[-6:-1]
        change = abs(window[-1] - window[0]) / 4.0
        return change < self.tolerance * (abs(window[-1]) if self.relative else 1.0)


@dataclass(frozen=True)
class FitReport:
    """How a fit went."""

    loss: float
    """Mean squared error of the last pass."""
    passes: int


class CriticFit:
    """Regression of a critic on targets."""

    def __init__(
        self, critic: Critic, optimizer: torch.optim.Optimizer, *, passes: int, minibatches: int, stop: StopRule,
        max_norm: float | None, rng: torch.Generator, shuffle: bool = True,
    ) -> None:  # fmt: skip
        self.critic, self.optimizer = critic, optimizer
        self.passes, self.minibatches, self.stop = passes, minibatches, stop
        self.max_norm, self.rng, self.shuffle = max_norm, rng, shuffle

    def __call__(self, obs: Tensor, target: Tensor) -> FitReport:
        """Fit to [B, obs] states and [B] targets."""
        losses: list[float] = []
        while len(losses) < self.passes:
            losses.append(self._one_pass(obs, target))
            if self.stop(losses):
                break
        return FitReport(losses[-1], len(losses))

    def _one_pass(self, obs: Tensor, target: Tensor) -> float:
        if self.shuffle:
            order = torch.randperm(len(obs), generator=self.rng, device=obs.device)
            obs, target = obs[order], target[order]
        total = torch.zeros((), device=obs.device, dtype=obs.dtype)
        parts = min(self.minibatches, len(obs))
        for states, values in zip(obs.tensor_split(parts), target.tensor_split(parts), strict=True):
            total += self.critic.regress(states, values).mean()
            if self.max_norm is not None:
                nn.utils.clip_grad_norm_(self.critic.parameters(), self.max_norm)
            self.optimizer.step()
        return (total / parts).item()
