"""Measure the speed of one model."""

from __future__ import annotations

import torch

from ahac.bench.clock import interleaved
from ahac.sim import Simulator, State

__all__ = ["step_rates"]

ROLLOUT = 4
"""Control steps per measurement."""


def step_rates(sim: Simulator, seconds: float) -> tuple[float, float]:
    """Return control steps per second of all worlds from the rest state: forward only, and with gradients."""
    rest = sim.rest_state()
    state = State(rest.q.requires_grad_(), rest.v.requires_grad_())
    control = torch.zeros(sim.num_worlds, sim.model.nu, device=sim.device, dtype=sim.dtype, requires_grad=True)

    def roll() -> State:
        now = state
        for _ in range(ROLLOUT):
            now = sim.step(now, control)
        return now

    def forward() -> None:
        with torch.no_grad():
            roll()

    def both() -> None:
        end = roll()
        inputs = (state.q, state.v, control)
        torch.autograd.grad((end.q, end.v), inputs, (torch.ones_like(end.q), torch.ones_like(end.v)))

    took = interleaved({"forward": forward, "both": both}, sim.device, seconds)
    steps = sim.num_worlds * ROLLOUT
    return steps / took["forward"], steps / took["both"]
