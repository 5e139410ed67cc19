"""Horizon rules driven by stiffness: Algorithm 1 as printed and as released, and the rule of the paper's text.

The mean stiffness of a step does not depend on the horizon, so none of these has an equilibrium between the bounds: the
horizon drifts to one of them (docs/results.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ahac.algos.parts.horizon import AdaptiveHorizon, Signals
from ahac.core.errors import InputError

__all__ = ["DualHorizon", "StiffnessHorizon"]


@dataclass
class DualHorizon(AdaptiveHorizon):
    """Algorithm 1: the sum of the multipliers of the stiffness constraint changes the horizon.

        φ_h <- φ_h − α (C − c_h),        H <- H + α Σ φ_h

    As printed (`signed=False`), φ >= 0: the horizon can only grow. In the released code (`signed=True`), φ may be
    negative, and φ_0 becomes the multiplier of every step of the next rollout.
    """

    limit: float = 500.0
    """Limit C."""
    learning_rate: float = 1e-5
    """Learning rate α_φ."""
    signed: bool = False
    """Whether multipliers may be negative."""
    needs: frozenset[str] = frozenset({"stiffness"})
    phi: Tensor = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.phi = torch.zeros(self.bounds.max, dtype=torch.float64)

    def multipliers(self) -> Tensor | None:
        """Return φ for the steps of the next rollout."""
        return self.phi[: self.steps]

    def update(self, signals: Signals, step_scale: float) -> None:
        """Update the multipliers, then the horizon."""
        assert signals.stiffness is not None, "listed in `needs`"
        length = len(signals.stiffness)
        alpha = self.learning_rate * step_scale
        phi = self.phi[:length] - alpha * (self.limit - signals.stiffness.detach().to("cpu", torch.float64))
        self.phi[:length] = phi if self.signed else phi.clamp(min=0.0)
        self.horizon = self.bounds.clip(self.horizon + alpha * float(self.phi[:length].sum()))
        if self.signed:
            self.phi[:] = self.phi[0].item()

    def state_dict(self) -> dict[str, Tensor]:
        """Return the horizon and the multipliers."""
        return {**super().state_dict(), "phi": self.phi.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a saved state."""
        if not bool(torch.isfinite(state["phi"]).all()):
            raise InputError("the saved multipliers of the horizon are not finite; use another checkpoint")
        super().load_state_dict(state)
        self.phi.copy_(state["phi"])


@dataclass
class StiffnessHorizon(AdaptiveHorizon):
    """The rule of the paper's text: stiffness above the limit shortens rollouts, below it lengthens them."""

    limit: float = 500.0
    """Limit C."""
    speed: float = 0.02
    """Largest relative change per iteration."""
    needs: frozenset[str] = frozenset({"stiffness"})

    def update(self, signals: Signals, step_scale: float) -> None:
        """Set H <- H exp(speed · (C − c) / C), with the ratio clipped to ±1."""
        assert signals.stiffness is not None, "listed in `needs`"
        ratio = (self.limit - float(signals.stiffness.mean())) / self.limit
        self.horizon = self.bounds.clip(self.horizon * math.exp(self.speed * min(max(ratio, -1.0), 1.0)))
