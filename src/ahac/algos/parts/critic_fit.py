"""Fit a critic to targets: epochs over a rollout in minibatches, until the loss has plateaued."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.nets.critic_training import CriticEpoch
from ahac.nets.optim import step_only_if
from ahac.runtime.stages import stage
from ahac.runtime.transfer import record_event

__all__ = ["CriticFit", "FitResult", "has_plateaued"]

PLATEAU_WINDOW = 6
"""Number of losses that the stopping rule uses, and the minimum number of epochs."""


def has_plateaued(losses: Tensor, tolerance: float) -> Tensor:
    """Whether the mean difference of the five losses before the latest is below a tolerance, in absolute value.

    The paper's text sums losses, its appendix sums differences; the released code takes the mean of the differences,
    after at least six epochs. This is the released rule, on the last six losses.
    """
    return (losses[-2] - losses[-6]).abs() / 4.0 < tolerance


class FitResult(NamedTuple):
    """Result of a fit, on the critic's device."""

    loss: Tensor
    """Mean squared error of the last epoch."""
    epochs: Tensor


class CriticFit:
    """Regression of a critic on targets.

    The device decides when to stop. On the CPU the host reads that decision after every epoch. On CUDA it reads it some
    epochs later, so that the queue never runs dry: epochs after the decision change nothing, and `rewind` takes back
    the random numbers that they drew.
    """

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
        """Fit for at most `epochs` epochs, or until the loss changes by less than `tolerance` if it is given.

        All ranks stop after the same epoch.
        """
        self.train_epoch = train_epoch
        self.optimizer = optimizer
        self.epochs = epochs
        self.minibatches = minibatches
        self.tolerance = tolerance
        self.rng = rng
        self.shuffle = shuffle
        self.ranks = ranks
        self._cuda = rng.device.type == "cuda"
        self._active = torch.ones((), dtype=torch.bool, device=rng.device)
        self._losses = torch.zeros(PLATEAU_WINDOW, dtype=torch.float64, device=rng.device)
        self._count = torch.zeros((), dtype=torch.int64, device=rng.device)
        self._decisions = torch.zeros(epochs, dtype=torch.bool, pin_memory=self._cuda)
        self._offsets: list[int] = []
        """Random-number offsets on CUDA: before each epoch, and after the last."""

    def __call__(self, obs: Tensor, target: Tensor, valid: Tensor) -> FitResult:
        """Fit to [B, obs] states and [B] targets; do nothing unless they are valid."""
        self._active.copy_(valid)
        self._count.zero_()
        self._losses.fill_(math.nan)
        return self._fit_on_cuda(obs, target) if self._cuda else self._fit_on_cpu(obs, target)

    def rewind(self, epochs: int) -> None:
        """Restore the generator to where it was after the given number of epochs."""
        if self._cuda:
            self.rng.set_offset(self._offsets[epochs])

    def _fit_on_cpu(self, obs: Tensor, target: Tensor) -> FitResult:
        while bool(self._active) and int(self._count) < self.epochs:
            self.run_epoch(obs, target)
        return self._result()

    def _fit_on_cuda(self, obs: Tensor, target: Tensor) -> FitResult:
        self._offsets = [self.rng.get_offset()]
        events: list[torch.cuda.Event] = []
        while len(events) < self.epochs:
            self.run_epoch(obs, target)
            self._offsets.append(self.rng.get_offset())
            self._decisions[len(events)].copy_(self._active, non_blocking=True)
            events.append(record_event())
            finished = len(events) - 1 - self.train_epoch.max_in_flight
            if self.tolerance is not None and finished >= 0:
                events[finished].synchronize()
                if not self._decisions[finished]:
                    break
        return self._result()

    @stage
    def run_epoch(self, obs: Tensor, target: Tensor) -> None:
        """Train for one epoch and decide whether to continue; after the decision to stop, change nothing."""
        if self.shuffle:
            order = torch.randperm(len(obs), generator=self.rng, device=obs.device)
        else:
            order = torch.arange(len(obs), device=obs.device)
        with step_only_if(self._active, self.optimizer) if self._cuda else nullcontext():
            losses = self.train_epoch(obs, target, order, min(self.minibatches, len(obs)))
        loss = self.ranks.from_rank_zero(losses.mean()).double()
        self._losses.copy_(torch.where(self._active, torch.cat([self._losses[1:], loss[None]]), self._losses))
        self._count += self._active
        if self.tolerance is not None:
            self._active &= ~((self._count >= PLATEAU_WINDOW) & has_plateaued(self._losses, self.tolerance))

    def _result(self) -> FitResult:
        return FitResult(self._losses[-1].clone(), self._count.clone())
