"""Fitting a critic to targets: passes over the rollout's states in minibatches, until the loss has settled."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.nets.critic_training import CriticEpoch
from ahac.nets.optim import step_only_if
from ahac.runtime.cuda_graphs import GraphCache, record_event

__all__ = ["CriticFit", "FitResult", "GraphedCriticFit", "has_plateaued"]

PLATEAU_WINDOW = 6
"""Losses that the rule looks at; so many passes are made at least."""


def has_plateaued(losses: Tensor, tolerance: float) -> Tensor:
    """Whether the loss has stopped changing: |mean difference of five losses before the latest| below a tolerance.

    The paper's text sums losses, its appendix sums differences; the released code takes the mean of the differences,
    after at least six passes. This is that rule, on the last six losses.
    """
    return (losses[-2] - losses[-6]).abs() / 4.0 < tolerance


class FitResult(NamedTuple):
    """How a fit went; numbers on the critic's device."""

    loss: Tensor
    """Mean squared error of the last pass."""
    epochs: Tensor


class CriticFit:
    """Regression of a critic on targets."""

    def __init__(
        self,
        train_epoch: CriticEpoch,
        optimizer: torch.optim.Optimizer,
        *,
        epochs: int,
        minibatches: int,
        tolerance: float | None,
        rng: torch.Generator,
        shuffle: bool = True,
        ranks: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        """With at most so many passes; fewer, where there is a tolerance and the loss settles, on all ranks at once."""
        self.train_epoch = train_epoch
        self.optimizer = optimizer
        self.epochs = epochs
        self.minibatches = minibatches
        self.tolerance = tolerance
        self.rng = rng
        self.shuffle = shuffle
        self.ranks = ranks

    def __call__(self, obs: Tensor, target: Tensor, sound: Tensor) -> FitResult:
        """Fit to [B, obs] states and [B] targets, unless they are not sound."""
        losses = torch.full((self.epochs + PLATEAU_WINDOW,), math.nan, dtype=torch.float64)
        done = 0
        while bool(sound) and done < self.epochs:
            losses[PLATEAU_WINDOW + done] = self.run_epoch(obs, target).item()
            done += 1
            if (
                self.tolerance is not None
                and done >= PLATEAU_WINDOW
                and has_plateaued(losses[: PLATEAU_WINDOW + done], self.tolerance)
            ):
                break
        return FitResult(losses[PLATEAU_WINDOW + done - 1].to(obs.device), torch.tensor(done, device=obs.device))

    def run_epoch(self, obs: Tensor, target: Tensor) -> Tensor:
        """Its mean loss."""
        if self.shuffle:
            order = torch.randperm(len(obs), generator=self.rng, device=obs.device)
        else:
            order = torch.arange(len(obs), device=obs.device)
        return self.ranks.from_rank_zero(self.train_epoch(obs, target, order, min(self.minibatches, len(obs))).mean())


class GraphedCriticFit:
    """A fit replayed on CUDA: the device itself decides when it is enough, and the host follows at a distance.

    It draws more than it needs: `rewind` takes that back once the number of passes is known.
    """

    def __init__(self, fit: CriticFit, recordings: GraphCache) -> None:
        device = fit.rng.device
        self.fit = fit
        self.graphs = recordings
        self._drawn: list[int] = []  # where chance stood before each pass, and after the last
        self._active = torch.ones((), dtype=torch.bool, device=device)
        self._losses = torch.zeros(PLATEAU_WINDOW, dtype=torch.float64, device=device)
        self._count = torch.zeros((), dtype=torch.int64, device=device)
        self._seen = torch.zeros(fit.epochs, dtype=torch.bool, pin_memory=True)

    def __call__(self, obs: Tensor, target: Tensor, sound: Tensor) -> FitResult:
        """Fit to [B, obs] states and [B] targets, unless they are not sound."""
        self._active.copy_(sound)
        self._count.zero_()
        self._losses.fill_(math.nan)
        self._drawn = [self.fit.rng.get_offset()]
        events: list[torch.cuda.Event] = []
        key = ("pass", len(obs), obs.data_ptr(), target.data_ptr())
        works = {"pass": lambda _: self._epoch(obs, target)}
        while len(events) < self.fit.epochs:
            self.graphs.run(key, works, lambda name: None)
            self._drawn.append(self.fit.rng.get_offset())
            self._seen[len(events)].copy_(self._active, non_blocking=True)
            events.append(record_event())
            known = len(events) - 1 - self.fit.train_epoch.max_in_flight
            if self.fit.tolerance is not None and known >= 0:
                events[known].synchronize()
                if not self._seen[known]:
                    break
        return FitResult(self._losses[-1].clone(), self._count.clone())

    def rewind(self, epochs: int) -> None:
        """So many passes counted: take back what was drawn after them."""
        self.fit.rng.set_offset(self._drawn[epochs])

    def _epoch(self, obs: Tensor, target: Tensor) -> None:
        """One pass, if it is still needed."""
        with step_only_if(self._active, self.fit.optimizer):
            loss = self.fit.run_epoch(obs, target).double()
        self._losses.copy_(torch.where(self._active, torch.cat([self._losses[1:], loss[None]]), self._losses))
        self._count += self._active
        if self.fit.tolerance is not None:
            self._active &= ~((self._count >= PLATEAU_WINDOW) & has_plateaued(self._losses, self.fit.tolerance))
