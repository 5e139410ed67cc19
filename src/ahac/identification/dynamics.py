"""What the estimator needs to know about a robot: its step, the Jacobians of the step, and what is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["Dynamics", "Observation", "delayed_controls"]


class Dynamics(Protocol):
    """A discrete-time system x' = F(x, u, p), evaluated on any number of rows.

    Derivatives and differences of states are in tangent coordinates: a rotation has three of them, not four.
    """

    tangent_size: int
    """Number of tangent coordinates, nt."""

    def step(self, x: Tensor, u: Tensor, p: Tensor) -> Tensor:
        """Return the next states [N, nx] of states [N, nx] under controls [N, nu] and parameters [P]."""
        ...

    def jacobian(self, x: Tensor, u: Tensor, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return ∂x'/∂x [N, nt, nt], ∂x'/∂u [N, nt, nu] and ∂x'/∂p [N, nt, P]."""
        ...

    def move(self, x: Tensor, step: Tensor) -> Tensor:
        """Return the states [..., nx] displaced by small steps [..., nt]."""
        ...

    def difference(self, x: Tensor, measured: Tensor) -> Tensor:
        """Return states minus measurements [..., channels] in the leading tangent coordinates."""
        ...


@dataclass(frozen=True, eq=False)
class Observation:
    """The measured channels: the leading tangent coordinates of the state, plus encoder offsets."""

    offsets: Tensor
    """[nt, P], one where a parameter is the encoder offset of a state, zero elsewhere."""
    fixed_offsets: Tensor
    """[nt] encoder offsets that the model has already, zero where a parameter takes their place."""
    channels: int
    """Number of measured tangent coordinates."""
    dt: float
    """Time between samples [s]."""
    delay: int | None = None
    """Column of the delay among the parameters, if it is one of them."""

    def offset(self, p: Tensor) -> Tensor:
        """Return measured minus true values [nt] under parameters [P]."""
        return self.offsets @ p + self.fixed_offsets


def delayed_controls(history: Tensor, delay: Tensor, dt: float, steps: int) -> tuple[Tensor, Tensor]:
    """Return controls [S, steps, nu] that arrive `delay` seconds late, and their derivatives with respect to the delay.

    Controls are held between samples, so that the mean over a step of the delayed controls interpolates two samples:

        u'ₖ = (1 − f) uₖ₋ₙ + f uₖ₋ₙ₋₁        n + f = delay / dt

    Args:
        history: [S, D + steps, nu] controls, beginning D samples before the first step.
        delay: Delay [s], at most D − 1 samples.
        dt: Time between samples [s].
        steps: Number of steps.
    """
    before = history.shape[1] - steps
    shift = float(delay) / dt
    n = min(int(shift), before - 1)
    newer, older = (history[:, before - n - late : before - n - late + steps] for late in (0, 1))
    return torch.lerp(newer, older, shift - n), (older - newer) / dt
