"""Horizons driven by what the backward pass of a rollout tells, which does depend on how long it is."""

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
    """How much larger [T − 1] adjoints are at the first steps than at the last.

    By means over a quarter of the rollout at either end, so that one hard contact does not decide.
    """
    edge = max(len(norms) // 4, 1)
    return float(norms[:edge].mean() / norms[-edge:].mean())


@dataclass
class GrowthHorizon(AdaptiveHorizon):
    """Keeps how much the gradient grows along a rollout at a limit.

    The adjoint of the state, read off the backward pass, is the accumulated Jacobian applied to what the loss sees. Its
    growth from the last steps to the first is G = log(first / last); rollouts get longer while G is below the limit.
    """

    limit: float = math.log(10.0)
    """Largest growth, as a logarithm."""
    speed: float = 0.02
    """Largest relative change per iteration."""
    needs: frozenset[str] = frozenset({"growth"})

    def update(self, signals: Signals, step_scale: float) -> None:
        """H <- H exp(speed · (limit − G) / limit), with the ratio held inside ±1."""
        assert signals.growth is not None, "asked for by `needs`"
        grown = overall_growth(signals.growth)
        if 0.0 < grown < math.inf:
            ratio = (self.limit - math.log(grown)) / self.limit
            self.horizon = self.bounds.clip(self.horizon * math.exp(self.speed * min(max(ratio, -1.0), 1.0)))


@dataclass
class EsnrHorizon(AdaptiveHorizon):
    """Climbs towards the horizon at which the actor's gradient has the best signal-to-noise ratio over worlds.

    Lengths on a geometric ladder are tried in turn around the best known one; each keeps a running mean of what was
    measured there.
    """

    memory: float = 0.9
    """Of the running means."""
    patience: int = 4
    """Iterations spent at a length before a neighbour is tried."""
    needs: frozenset[str] = frozenset({"esnr"})
    ladder: list[int] = field(init=False)
    score: Tensor = field(init=False)
    best_rung: int = field(init=False)
    offset: int = field(init=False, default=0)
    count: int = field(init=False, default=0)

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
        """Note what this length gave, then stay, or try or settle on a neighbour."""
        assert signals.esnr is not None, "asked for by `needs`"
        here = self.best_rung + self.offset
        known = float(self.score[here])
        new = signals.esnr if math.isfinite(signals.esnr) else 0.0
        self.score[here] = new if math.isnan(known) else self.memory * known + (1.0 - self.memory) * new
        self.count += 1
        if self.count % self.patience == 0:
            settled = torch.nan_to_num(self.score, nan=-math.inf)
            near = [i for i in (self.best_rung - 1, self.best_rung, self.best_rung + 1) if 0 <= i < len(self.ladder)]
            self.best_rung = max(near, key=lambda i: float(settled[i]))
            turn = (self.count // self.patience) % 4
            self.offset = {0: 0, 1: 1, 2: 0, 3: -1}[turn]
            if not 0 <= self.best_rung + self.offset < len(self.ladder):
                self.offset = 0
        self.horizon = float(self.ladder[self.best_rung + self.offset])

    def state_dict(self) -> dict[str, Tensor]:
        """Where it stands and what it has seen."""
        place = torch.tensor([self.best_rung, self.offset, self.count])
        return {**super().state_dict(), "score": self.score.clone(), "place": place}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what was learnt."""
        place, trial, count = (int(x) for x in state["place"])
        rungs = range(len(self.ladder))
        if place not in rungs or place + trial not in rungs or count < 0:
            raise InputError(
                f"the saved place of the horizon is {[place, trial, count]}; expected one of {len(rungs)} lengths, "
                "take another checkpoint"
            )
        super().load_state_dict(state)
        self.score.copy_(state["score"])
        self.best_rung = place
        self.offset = trial
        self.count = count
