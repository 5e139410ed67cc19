"""Multiple shooting: residuals of all segments, and the normal equations of their linearization.

Unknowns are the parameters p, which all segments share, and the start ξ of each segment in measured coordinates, so
that a segment begins at x₀ = ξ − offsets(p). Sensitivities S = ∂x/∂(p, ξ), in tangent coordinates of x, follow the
simulation:

    Sₖ₊₁ = Aₖ Sₖ + (Bₖ, 0)        A = ∂x'/∂x        B = ∂x'/∂p + ∂x'/∂u ∂u/∂p

The Jacobians A and B of all samples are computed in a few large batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.identification.dynamics import Dynamics, Observation, delayed_controls
from ahac.identification.segments import Segments

__all__ = ["NormalEquations", "Shooting"]

BATCH = 4096
"""States per batch of Jacobians, at least."""


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """½ Σ (r/σ)² to second order, by segment; unknowns are ordered (p, ξ)."""

    hessian: Tensor
    """[S, P + nt, P + nt] JᵀJ with residuals and Jacobian divided by σ."""
    gradient: Tensor
    """[S, P + nt] Jᵀr, likewise."""


class Shooting:
    """Simulation of segments as a function of parameters and starts."""

    def __init__(self, dynamics: Dynamics, segments: Segments, observation: Observation) -> None:
        self.dynamics = dynamics
        self.segments = segments
        self.observation = observation

    def controls(self, p: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the controls [S, K, nu] that act, and their derivatives with respect to the delay, if there is one."""
        column = self.observation.delay
        history, steps = self.segments.controls, self.segments.steps
        if column is None:
            return history[:, history.shape[1] - steps :], None
        return delayed_controls(history, p[column], self.observation.dt, steps)

    def simulate(self, p: Tensor, starts: Tensor) -> Tensor:
        """Return the states [K + 1, S, nx] from the given starts."""
        controls, _ = self.controls(p)
        states = [self.dynamics.move(starts, -self.observation.offset(p).expand(len(starts), -1))]
        for k in range(self.segments.steps):
            states.append(self.dynamics.step(states[-1], controls[:, k], p))
        return torch.stack(states)

    def spread(self) -> Tensor:
        """Return the standard deviation of each measured channel; never zero."""
        measured = self.segments.measured.flatten(0, 1)
        deviation = self.dynamics.difference(measured, measured[:1].expand_as(measured)).std(dim=0)
        return deviation.clamp_min(1e-9 + 1e-3 * float(deviation.max()))

    def residuals(self, p: Tensor, states: Tensor) -> Tensor:
        """Return simulated minus measured values [K + 1, S, channels]."""
        offsets = self.observation.offset(p)[: self.observation.channels]
        return self.dynamics.difference(states, self.segments.measured.transpose(0, 1)) + offsets

    def linearize(self, p: Tensor, states: Tensor, sigma: Tensor) -> NormalEquations:
        """Return the normal equations at simulated states, with residuals divided by `sigma` [channels]."""
        steps, count, nt = states.shape[0] - 1, states.shape[1], self.dynamics.tangent_size
        channels, offsets = self.observation.channels, self.observation.offsets
        controls, by_delay = self.controls(p)
        residuals = self.residuals(p, states) / sigma
        size = len(p) + nt
        hessian, gradient = states.new_zeros(count, size, size), states.new_zeros(count, size)
        sensitivity = torch.cat([-offsets, torch.eye(nt).to(p)], dim=1).expand(count, -1, -1)
        seen = torch.nn.functional.pad(offsets[:channels], (0, nt))
        rows = [sensitivity[:, :channels]]
        batch = max(1, BATCH // count)
        for first in range(0, steps, batch):
            last = min(first + batch, steps)
            along = None if by_delay is None else by_delay[:, first:last]
            a, b = self._jacobians(p, states[first:last], controls[:, first:last], along)
            sensitivity = sensitivity.to(a)
            for k in range(last - first):
                sensitivity = a[k] @ sensitivity
                sensitivity[:, :, : len(p)] += b[k]
                rows.append(sensitivity[:, :channels])
            jacobian = ((torch.stack(rows, dim=1).to(p) + seen) / sigma[:, None]).flatten(1, 2)
            r = residuals[last + 1 - len(rows) : last + 1].transpose(0, 1).reshape(count, -1, 1)
            hessian += jacobian.transpose(1, 2) @ jacobian
            gradient += (jacobian.transpose(1, 2) @ r)[..., 0]
            rows = []
        return NormalEquations(hessian, gradient)

    def _jacobians(self, p: Tensor, states: Tensor, controls: Tensor, by_delay: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return A [k, S, nt, nt] and B [k, S, nt, P] of consecutive steps."""
        shape = states.shape[:2]
        u = controls.transpose(0, 1).flatten(0, 1)
        a, bu, bp = self.dynamics.jacobian(states.flatten(0, 1), u, p)
        if by_delay is not None:
            along = by_delay.transpose(0, 1).flatten(0, 1).to(bu)
            bp[:, :, self.observation.delay] += (bu @ along[..., None])[..., 0]
        return a.unflatten(0, shape), bp.unflatten(0, shape)
