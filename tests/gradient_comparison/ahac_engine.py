"""The simulator of this project, differentiated by torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from ahac.sim import Integrator, Simulator, State, load_model
from gradient_comparison.cases import STEP, Array, Case

__all__ = ["AhacEngine"]


@dataclass(frozen=True)
class AhacEngine:
    """`Simulator.step` with default contact constants and one substep."""

    integrator: Integrator = "implicit"

    @property
    def settings(self) -> str:
        """Description on the page."""
        return f"integrator `{self.integrator}`, default contact constants; reverse mode by `torch.autograd`"

    def load(self, case: Case, worlds: int, double: bool) -> AhacRollouts:
        """Return rollouts on one thread."""
        sim = Simulator(
            load_model(case.xml()), num_worlds=worlds, dt=STEP, substeps=1, num_threads=1,
            dtype=torch.float64 if double else torch.float32, integrator=self.integrator,
        )  # fmt: skip
        return AhacRollouts(case, sim)


@dataclass(frozen=True)
class AhacRollouts:
    """Rollouts of one simulator."""

    case: Case
    sim: Simulator
    weights: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", torch.tensor(self.case.weights(), dtype=self.sim.dtype))

    def states(self, inputs: Array, steps: Sequence[int]) -> Array:
        """Simulate without gradients."""
        found: list[Array] = []
        with torch.no_grad():
            state, control = self._start(torch.tensor(inputs, dtype=self.sim.dtype))
            for step in range(1, max(steps) + 1):
                state = self.sim.step(state, control)
                if step in steps:
                    found.append(torch.cat([state.q, state.v], dim=1).double().numpy())
        return np.stack(found)

    def gradients(self, inputs: Array, steps: int) -> Array:
        """Simulate and backpropagate."""
        x = torch.tensor(inputs, dtype=self.sim.dtype, requires_grad=True)
        state, control = self._start(x)
        for _ in range(steps):
            state = self.sim.step(state, control)
        (torch.cat([state.q, state.v], dim=1) @ self.weights).sum().backward()
        assert x.grad is not None
        return x.grad.double().numpy()

    def _start(self, x: torch.Tensor) -> tuple[State, torch.Tensor]:
        q, v, control = x.split([len(self.case.q), len(self.case.v), len(self.case.control)], dim=1)
        return State(q, v), control
