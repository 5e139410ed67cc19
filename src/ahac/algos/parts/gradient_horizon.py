"""Horizon rules driven by gradients of the rollout, which do depend on the horizon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ahac.algos.parts.horizon import AdaptiveHorizon, Signals
from ahac.core.errors import InputError

__all__ = ["EsnrHorizon", "GrowthHorizon", "overall_growth"]


def overall_growth(norms: Tensor) -> float:
    """Return the ratio of [T − 1] adjoint norms at the first steps to those at the last.

    Each is a mean over a quarter of the rollout, so that one hard contact does not decide. A rollout of one step has no
    growth: 1.
    """
    if len(norms) == 0:
        return 1.0
    edge = max(len(norms) // 4, 1)
    return float(norms[:edge].mean() / norms[-edge:].mean())


@dataclass
class GrowthHorizon(AdaptiveHorizon):
    """Keeps the growth of the gradient along a rollout at a limit.

    The adjoint of the state, taken from the backward pass, is the accumulated Jacobian applied to the gradient of the
    loss. Its growth from the last steps to the first is G = log(first / last); the horizon grows while G is below the
    limit.
    """

    limit: float = math.log(10.0)
    """Logarithm of the largest growth."""
    speed: float = 0.02
    """Largest relative change per iteration."""
    needs: frozenset[str] = frozenset({"growth"})

    def update(self, signals: Signals, step_scale: float) -> None:
        """Set H <- H exp(speed · (limit − G) / limit), with the ratio clipped to ±1."""
        assert signals.adjoint_norms is not None, "listed in `needs`"
        growth = overall_growth(signals.adjoint_norms)
        if 0.0 < growth < math.inf:
            ratio = (self.limit - math.log(growth)) / self.limit
            self.horizon = self.bounds.clip(self.horizon * math.exp(self.speed * min(max(ratio, -1.0), 1.0)))


@dataclass
class EsnrHorizon(AdaptiveHorizon):
    """Climbs toward the horizon with the best ESNR of the gradient with respect to the actions.

    It tries the lengths of a geometric ladder around the best one in turn, and keeps a running mean of the ratio
    measured at each.
    """

    memory: float = 0.9
    """Decay factor of the running means."""
    patience: int = 4
    """Iterations at a length before a neighbor is tried."""
    needs: frozenset[str] = frozenset()
    ladder: list[int] = field(init=False)
    """Lengths to try, ascending."""
    score: Tensor = field(init=False)
    """Running mean of the ratio for each length, NaN if not measured yet."""
    best_rung: int = field(init=False)
    offset: int = field(init=False, default=0)
    """Rung being tried, relative to the best one: −1, 0 or 1."""
    count: int = field(init=False, default=0)
    """Number of updates."""

    def __post_init__(self) -> None:
        super().__post_init__()
        rungs = [self.bounds.min]
        while rungs[-1] < self.bounds.max:
            rungs.append(min(round(rungs[-1] * 1.41) + 1, self.bounds.max))
        self.ladder = rungs
        self.score = torch.full((len(rungs),), math.nan, dtype=torch.float64)
        self.best_rung = min(range(len(rungs)), key=lambda i: abs(rungs[i] - self.horizon))
        self.horizon = float(rungs[self.best_rung])

    def update(self, signals: Signals, step_scale: float) -> None:
        """Update the score of the current length, then stay, try a neighbor, or move to it."""
        assert signals.esnr is not None, "always measured"
        rung = self.best_rung + self.offset
        score = float(self.score[rung])
        new = signals.esnr if math.isfinite(signals.esnr) else 0.0
        self.score[rung] = new if math.isnan(score) else self.memory * score + (1.0 - self.memory) * new
        self.count += 1
        if self.count % self.patience == 0:
            scores = torch.nan_to_num(self.score, nan=-math.inf)
            best = self.best_rung
            candidates = [i for i in (best, best - 1, best + 1) if 0 <= i < len(self.ladder)]  # a tie changes nothing
            self.best_rung = max(candidates, key=lambda i: float(scores[i]))
            turn = (self.count // self.patience) % 4
            self.offset = {0: 0, 1: 1, 2: 0, 3: -1}[turn]
            if not 0 <= self.best_rung + self.offset < len(self.ladder):
                self.offset = 0
        self.horizon = float(self.ladder[self.best_rung + self.offset])

    def state_dict(self) -> dict[str, Tensor]:
        """Return the horizon, the scores and the position on the ladder."""
        place = torch.tensor([self.best_rung, self.offset, self.count])
        return {**super().state_dict(), "score": self.score.clone(), "place": place}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a saved state."""
        best_rung, offset, count = (int(x) for x in state["place"])
        rungs = range(len(self.ladder))
        if best_rung not in rungs or best_rung + offset not in rungs or count < 0:
            raise InputError(
                f"the saved horizon rule is at {[best_rung, offset, count]} (rung, offset, updates); expected one of "
                f"{len(rungs)} rungs: use another checkpoint"
            )
        super().load_state_dict(state)
        self.score.copy_(state["score"])
        self.best_rung = best_rung
        self.offset = offset
        self.count = count
