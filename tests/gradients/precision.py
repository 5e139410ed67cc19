"""Many worlds whose gradients are taken in either precision, through compiled kernels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.sim import Integrator, Model, Simulator, State

Sample = tuple[Tensor, Tensor, Tensor]
"""q, v, u, in float64."""


@dataclass(frozen=True)
class Worlds:
    """States of many worlds, and adjoints of where they end."""

    model: Model
    start: Sample
    weights: tuple[Tensor, Tensor]

    def gradients(
        self, dtype: torch.dtype, device: torch.device, substeps: int = 16, integrator: Integrator = "implicit"
    ) -> list[Tensor]:
        """With respect to q, v, u after some substeps of a millisecond; float64 numbers."""
        sim = Simulator(
            self.model,
            num_worlds=len(self.start[0]),
            dt=substeps / 1024,
            substeps=substeps,
            device=device,
            dtype=dtype,
            integrator=integrator,
        )
        inputs = [x.to(sim.device, dtype).requires_grad_() for x in self.start]
        end = sim.step(State(inputs[0], inputs[1]), inputs[2])
        seeds = [w.to(sim.device, dtype) for w in self.weights]
        return [g.double().cpu() for g in torch.autograd.grad((end.q, end.v), inputs, seeds)]
