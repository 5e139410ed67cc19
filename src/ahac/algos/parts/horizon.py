"""How long rollouts are, and how that is learnt.

A rule looks at what an iteration measured (`Signals`) and says how many steps the next rollout has. Those that learn
are in `stiffness_horizon.py` and `gradient_horizon.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from ahac.core.checks import check_finite
from ahac.core.errors import InputError

__all__ = ["AdaptiveHorizon", "Bounds", "FixedHorizon", "HorizonRule", "Signals"]


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

    min: int = 8
    max: int = 64

    def __post_init__(self) -> None:
        if not 0 < self.min <= self.max:
            raise InputError(f"a horizon needs 0 < least <= most, got {self.min} and {self.max}")

    def clip(self, horizon: float) -> float:
        """Inside the bounds."""
        return min(max(horizon, float(self.min)), float(self.max))


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

    def update(self, signals: Signals, step_scale: float) -> None:
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

    def update(self, signals: Signals, step_scale: float) -> None:
        """Nothing to learn."""

    def state_dict(self) -> dict[str, Tensor]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Nothing."""


@dataclass
class AdaptiveHorizon:
    """A horizon that is a real number inside bounds, used rounded."""

    bounds: Bounds
    initial: float
    horizon: float = field(init=False)

    def __post_init__(self) -> None:
        self.horizon = self.bounds.clip(self.initial)

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
        self.horizon = self.bounds.clip(check_finite("the saved horizon", float(state["horizon"])))
