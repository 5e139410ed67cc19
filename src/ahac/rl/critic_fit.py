"""Fitting a critic to targets: passes over the rollout's states in minibatches, until the loss has settled."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ahac.core.ranks import ALONE, Ranks
from ahac.nets.adam import only_where
from ahac.nets.descent import Descent
from ahac.rl.recordings import Recordings, queued

__all__ = ["CriticFit", "FitReport", "RecordedFit", "settled"]

WINDOW = 6
"""Losses that the rule looks at; so many passes are made at least."""


def settled(losses: Tensor, tolerance: float) -> Tensor:
    """Whether the loss has stopped changing: |mean difference of five losses before the latest| below a tolerance.

    The paper's text sums losses, its appendix sums differences; the released code takes the mean of the differences,
    after at least six passes. This is that rule, on the last six losses.
    """
    return (losses[-2] - losses[-6]).abs() / 4.0 < tolerance


class FitReport(NamedTuple):
    """How a fit went; numbers on the critic's device."""

    loss: Tensor
    """Mean squared error of the last pass."""
    passes: Tensor


class CriticFit:
    """Regression of a critic on targets."""

    def __init__(
        self, descend: Descent, optimizer: torch.optim.Optimizer, *, passes: int, minibatches: int,
        tolerance: float | None, rng: torch.Generator, shuffle: bool = True, ranks: Ranks = ALONE,
    ) -> None:  # fmt: skip
        """With at most so many passes; fewer, where there is a tolerance and the loss settles, on all ranks at once."""
        self.descend, self.optimizer, self.passes, self.minibatches = descend, optimizer, passes, minibatches
        self.tolerance, self.rng, self.shuffle, self.ranks = tolerance, rng, shuffle, ranks

    def __call__(self, obs: Tensor, target: Tensor, sound: Tensor) -> FitReport:
        """Fit to [B, obs] states and [B] targets, unless they are not sound."""
        losses = torch.full((self.passes + WINDOW,), math.nan, dtype=torch.float64)
        done = 0
        while bool(sound) and done < self.passes:
            losses[WINDOW + done] = self.one_pass(obs, target).item()
            done += 1
            if self.tolerance is not None and done >= WINDOW and settled(losses[: WINDOW + done], self.tolerance):
                break
        return FitReport(losses[WINDOW + done - 1].to(obs.device), torch.tensor(done, device=obs.device))

    def one_pass(self, obs: Tensor, target: Tensor) -> Tensor:
        """Its mean loss."""
        if self.shuffle:
            order = torch.randperm(len(obs), generator=self.rng, device=obs.device)
        else:
            order = torch.arange(len(obs), device=obs.device)
        return self.ranks.firsts(self.descend(obs, target, order, min(self.minibatches, len(obs))).mean())


class RecordedFit:
    """A fit replayed on CUDA: the device itself decides when it is enough, and the host follows at a distance.

    It draws more than it needs: `rewind` takes that back once the number of passes is known.
    """

    def __init__(self, fit: CriticFit, recordings: Recordings) -> None:
        device = fit.rng.device
        self.fit, self.recordings = fit, recordings
        self._drawn: list[int] = []  # where chance stood before each pass, and after the last
        self._active = torch.ones((), dtype=torch.bool, device=device)
        self._losses = torch.zeros(WINDOW, dtype=torch.float64, device=device)
        self._count = torch.zeros((), dtype=torch.int64, device=device)
        self._seen = torch.zeros(fit.passes, dtype=torch.bool, pin_memory=True)

    def __call__(self, obs: Tensor, target: Tensor, sound: Tensor) -> FitReport:
        """Fit to [B, obs] states and [B] targets, unless they are not sound."""
        self._active.copy_(sound)
        self._count.zero_()
        self._losses.fill_(math.nan)
        self._drawn = [self.fit.rng.get_offset()]
        events: list[torch.cuda.Event] = []
        key = ("pass", len(obs), obs.data_ptr(), target.data_ptr())
        works = {"pass": lambda _: self._pass(obs, target)}
        while len(events) < self.fit.passes:
            self.recordings.play(key, works, lambda name: None)
            self._drawn.append(self.fit.rng.get_offset())
            self._seen[len(events)].copy_(self._active, non_blocking=True)
            events.append(queued())
            known = len(events) - 1 - self.fit.descend.ahead
            if self.fit.tolerance is not None and known >= 0:
                events[known].synchronize()
                if not self._seen[known]:
                    break
        return FitReport(self._losses[-1].clone(), self._count.clone())

    def rewind(self, passes: int) -> None:
        """So many passes counted: take back what was drawn after them."""
        self.fit.rng.set_offset(self._drawn[passes])

    def _pass(self, obs: Tensor, target: Tensor) -> None:
        """One pass, if it is still needed."""
        with only_where(self._active, self.fit.optimizer):
            loss = self.fit.one_pass(obs, target).double()
        self._losses.copy_(torch.where(self._active, torch.cat([self._losses[1:], loss[None]]), self._losses))
        self._count += self._active
        if self.fit.tolerance is not None:
            self._active &= ~((self._count >= WINDOW) & settled(self._losses, self.fit.tolerance))
