"""Horizon rules: how many steps the next rollout has.

A rule adapts the horizon to the measurements of an iteration (`Signals`). Adaptive rules are in `stiffness_horizon.py`
and `gradient_horizon.py`.
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
    """Measurements of one iteration that horizon rules use."""

    stiffness: Tensor | None = None
    """[T] stiffness of each step, mean over worlds."""
    adjoint_norms: Tensor | None = None
    """[T − 1] norm over all worlds of the adjoint of the state before each step except the first."""
    esnr: float | None = None
    """Signal-to-noise ratio over worlds of the gradient with respect to the actions."""


@dataclass(frozen=True)
class Bounds:
    """Shortest and longest rollout [control steps]."""

    min: int = 8
    max: int = 64

    def __post_init__(self) -> None:
        if not 0 < self.min <= self.max:
            raise InputError(f"horizon bounds must satisfy 0 < min <= max, got {self.min} and {self.max}")

    def clip(self, horizon: float) -> float:
        """Clip a horizon to the bounds."""
        return min(max(horizon, float(self.min)), float(self.max))


class HorizonRule(Protocol):
    """Decides the length of rollouts."""

    @property
    def steps(self) -> int:
        """Number of steps of the next rollout."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """Signals to measure for this rule, of "stiffness" and "growth"; ESNR is always measured."""
        ...

    def multipliers(self) -> Tensor | None:
        """Return the [steps] multipliers φ of eq:lagrangian, or None if the rule has none."""
        ...

    def update(self, signals: Signals, step_scale: float) -> None:
        """Update the horizon after an iteration.

        Args:
            signals: Measurements of the iteration.
            step_scale: The scheduled learning rate as a fraction of its initial value.
        """
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Return what the rule has learned."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a saved state."""
        ...


@dataclass
class FixedHorizon:
    """A constant horizon."""

    length: int
    needs: frozenset[str] = frozenset()

    @property
    def steps(self) -> int:
        """Number of steps of the next rollout."""
        return self.length

    def multipliers(self) -> Tensor | None:
        """Return None: the rule has no multipliers."""
        return None

    def update(self, signals: Signals, step_scale: float) -> None:
        """Do nothing."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return an empty dict."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Do nothing."""


@dataclass
class AdaptiveHorizon:
    """A horizon that is a real number within bounds; rollouts use it rounded."""

    bounds: Bounds
    initial: float
    horizon: float = field(init=False)

    def __post_init__(self) -> None:
        self.horizon = self.bounds.clip(self.initial)

    @property
    def steps(self) -> int:
        """Number of steps of the next rollout."""
        return round(self.horizon)

    def multipliers(self) -> Tensor | None:
        """Return None: the rule has no multipliers."""
        return None

    def state_dict(self) -> dict[str, Tensor]:
        """Return the horizon."""
        return {"horizon": torch.tensor(self.horizon, dtype=torch.float64)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a saved state."""
        self.horizon = self.bounds.clip(check_finite("the saved horizon", float(state["horizon"])))
