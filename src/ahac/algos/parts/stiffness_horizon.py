"""Horizons driven by stiffness: Algorithm 1, as printed and as released, and what the paper's prose asks for.

The mean stiffness of a step does not depend on the horizon, so none of these has an interior equilibrium: they run to a
bound (docs/results.md).
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
        self.phi = torch.zeros(self.bounds.max, dtype=torch.float64)

    def multipliers(self) -> Tensor | None:
        """φ of the coming rollout's steps."""
        return self.phi[: self.steps]

    def update(self, signals: Signals, step_scale: float) -> None:
        """One dual step, then one of the horizon."""
        assert signals.stiffness is not None, "asked for by `needs`"
        taken = len(signals.stiffness)
        alpha = self.learning_rate * step_scale
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
        if not bool(torch.isfinite(state["phi"]).all()):
            raise InputError("the saved multipliers of the horizon are not finite; take another checkpoint")
        super().load_state_dict(state)
        self.phi.copy_(state["phi"])


@dataclass
class StiffnessHorizon(AdaptiveHorizon):
    """What the paper's prose asks for: stiffness above the limit shortens rollouts, below lengthens them."""

    limit: float = 500.0
    """C."""
    speed: float = 0.02
    """Largest relative change per iteration."""
    needs: frozenset[str] = frozenset({"stiffness"})

    def update(self, signals: Signals, step_scale: float) -> None:
        """H <- H exp(speed · (C − c) / C), with the ratio held inside ±1."""
        assert signals.stiffness is not None, "asked for by `needs`"
        excess = (self.limit - float(signals.stiffness.mean())) / self.limit
        self.horizon = self.bounds.clip(self.horizon * math.exp(self.speed * min(max(excess, -1.0), 1.0)))
