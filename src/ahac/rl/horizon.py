"""How long rollouts are, and how that is learnt.

A rule looks at what an iteration measured (`Signals`) and says how many steps the next rollout has. Those driven by the
mean stiffness of a step have no interior equilibrium, since that mean does not depend on the horizon: they run to a
bound. `GrowthHorizon` and `EsnrHorizon` look at what does depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from ahac.core.errors import InputError

__all__ = [
    "Bounds", "DualHorizon", "EsnrHorizon", "FixedHorizon", "GrowthHorizon", "HorizonRule", "ShrinkHorizon", "Signals",
]  # fmt: skip


@dataclass(frozen=True)
class Signals:
    """What one iteration measured."""

    stiffness: Tensor | None = None
    """[T] per step, mean over worlds."""
    growth: Tensor | None = None
    """[T − 1] norm of the adjoint of the state at the start of each step but the first, over all worlds."""
    esnr: float | None = None
    """Signal-to-noise ratio of the actor's gradient over worlds."""


@dataclass(frozen=True)
class Bounds:
    """Shortest and longest rollout [control steps]."""

    least: int = 8
    most: int = 64

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.most:
            raise InputError(f"a horizon needs 0 < least <= most, got {self.least} and {self.most}")

    def clip(self, horizon: float) -> float:
        """Inside the bounds."""
        return min(max(horizon, float(self.least)), float(self.most))


class HorizonRule(Protocol):
    """Decides how long rollouts are."""

    @property
    def steps(self) -> int:
        """Of the next rollout."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """Names of the signals it looks at."""
        ...

    def multipliers(self) -> Tensor | None:
        """[steps] φ of eq:lagrangian, where the rule has them."""
        ...

    def update(self, signals: Signals, rate: float) -> None:
        """Learn from an iteration; `rate` is the share of the learning rate that the schedule leaves, 1 at first."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """What it has learnt."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what was learnt."""
        ...


@dataclass
class FixedHorizon:
    """Always the same length."""

    length: int
    needs: frozenset[str] = frozenset()

    @property
    def steps(self) -> int:
        """Of the next rollout."""
        return self.length

    def multipliers(self) -> Tensor | None:
        """None."""
        return None

    def update(self, signals: Signals, rate: float) -> None:
        """Nothing to learn."""

    def state_dict(self) -> dict[str, Tensor]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Nothing."""


@dataclass
class _Learnt:
    """A horizon that is a real number inside bounds, used rounded."""

    bounds: Bounds
    first: float
    horizon: float = field(init=False)

    def __post_init__(self) -> None:
        self.horizon = self.bounds.clip(self.first)

    @property
    def steps(self) -> int:
        """Of the next rollout."""
        return round(self.horizon)

    def multipliers(self) -> Tensor | None:
        """None."""
        return None

    def state_dict(self) -> dict[str, Tensor]:
        """The horizon."""
        return {"horizon": torch.tensor(self.horizon, dtype=torch.float64)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what was learnt."""
        self.horizon = float(state["horizon"])


@dataclass
class DualHorizon(_Learnt):
    """Algorithm 1: multipliers of the constraint on stiffness, whose sum moves the horizon.

        φ_h <- φ_h − α (C − c_h),        H <- H + α Σ φ_h

    As printed (`signed=False`) φ >= 0: the horizon can only grow. The released code (`signed=True`) lets φ be negative
    and hands φ_0 on to all steps of the next rollout.
    """

    limit: float = 500.0
    """C."""
    learning_rate: float = 1e-5
    """α_φ."""
    signed: bool = False
    needs: frozenset[str] = frozenset({"stiffness"})
    phi: Tensor = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.phi = torch.zeros(self.bounds.most, dtype=torch.float64)

    def multipliers(self) -> Tensor | None:
        """φ of the coming rollout's steps."""
        return self.phi[: self.steps]

    def update(self, signals: Signals, rate: float) -> None:
        """One dual step, then one of the horizon."""
        assert signals.stiffness is not None, "asked for by `needs`"
        taken = len(signals.stiffness)
        alpha = self.learning_rate * rate
        raised = self.phi[:taken] - alpha * (self.limit - signals.stiffness.detach().to("cpu", torch.float64))
        self.phi[:taken] = raised if self.signed else raised.clamp(min=0.0)
        self.horizon = self.bounds.clip(self.horizon + alpha * float(self.phi[:taken].sum()))
        if self.signed:
            self.phi[:] = self.phi[0].item()

    def state_dict(self) -> dict[str, Tensor]:
        """Horizon and multipliers."""
        return {**super().state_dict(), "phi": self.phi.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what was learnt."""
        super().load_state_dict(state)
        self.phi = state["phi"].clone()


@dataclass
class ShrinkHorizon(_Learnt):
    """What the paper's prose asks for: stiffness above the limit shortens rollouts, below lengthens them."""

    limit: float = 500.0
    """C."""
    speed: float = 0.02
    """Largest relative change per iteration."""
    needs: frozenset[str] = frozenset({"stiffness"})

    def update(self, signals: Signals, rate: float) -> None:
        """H <- H exp(speed · (C − c) / C), with the ratio held inside ±1."""
        assert signals.stiffness is not None, "asked for by `needs`"
        excess = (self.limit - float(signals.stiffness.mean())) / self.limit
        self.horizon = self.bounds.clip(self.horizon * math.exp(self.speed * min(max(excess, -1.0), 1.0)))


@dataclass
class GrowthHorizon(_Learnt):
    """Keeps how much the gradient grows along a rollout at a limit.

    The adjoint of the state, read off the backward pass, is the accumulated Jacobian applied to what the loss sees. Its
    growth from the last steps to the first is G = log(first / last); rollouts get longer while G is below the limit.
    """

    limit: float = math.log(10.0)
    """Largest growth, as a logarithm."""
    speed: float = 0.02
    """Largest relative change per iteration."""
    needs: frozenset[str] = frozenset({"growth"})

    def update(self, signals: Signals, rate: float) -> None:
        """H <- H exp(speed · (limit − G) / limit), with the ratio held inside ±1."""
        assert signals.growth is not None, "asked for by `needs`"
        norms = signals.growth
        edge = max(len(norms) // 4, 1)
        # A quarter of the rollout at either end, so that one hard contact does not decide.
        grown = float(norms[:edge].mean().log() - norms[-edge:].mean().log())
        if math.isfinite(grown):
            ratio = (self.limit - grown) / self.limit
            self.horizon = self.bounds.clip(self.horizon * math.exp(self.speed * min(max(ratio, -1.0), 1.0)))


@dataclass
class EsnrHorizon(_Learnt):
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
    place: int = field(init=False)
    trial: int = field(init=False, default=0)
    count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        rungs = [self.bounds.least]
        while rungs[-1] < self.bounds.most:
            rungs.append(min(round(rungs[-1] * 1.41) + 1, self.bounds.most))
        self.ladder, self.score = rungs, torch.full((len(rungs),), math.nan, dtype=torch.float64)
        self.place = min(range(len(rungs)), key=lambda i: abs(rungs[i] - self.horizon))
        self.horizon = float(rungs[self.place])

    def update(self, signals: Signals, rate: float) -> None:
        """Note what this length gave, then stay, or try or settle on a neighbour."""
        assert signals.esnr is not None, "asked for by `needs`"
        here = self.place + self.trial
        known, new = float(self.score[here]), signals.esnr
        self.score[here] = new if math.isnan(known) else self.memory * known + (1.0 - self.memory) * new
        self.count += 1
        if self.count % self.patience == 0:
            settled = torch.nan_to_num(self.score, nan=-math.inf)
            near = [i for i in (self.place - 1, self.place, self.place + 1) if 0 <= i < len(self.ladder)]
            self.place = max(near, key=lambda i: float(settled[i]))
            turn = (self.count // self.patience) % 4
            self.trial = {0: 0, 1: 1, 2: 0, 3: -1}[turn]
            if not 0 <= self.place + self.trial < len(self.ladder):
                self.trial = 0
        self.horizon = float(self.ladder[self.place + self.trial])

    def state_dict(self) -> dict[str, Tensor]:
        """Where it stands and what it has seen."""
        place = torch.tensor([self.place, self.trial, self.count])
        return {**super().state_dict(), "score": self.score.clone(), "place": place}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what was learnt."""
        super().load_state_dict(state)
        self.score = state["score"].clone()
        self.place, self.trial, self.count = (int(x) for x in state["place"])
