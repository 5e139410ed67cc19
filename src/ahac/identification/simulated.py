"""A simulated robot as a discrete-time system with Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ahac.identification.dynamics import Observation
from ahac.sim import Simulator, State

if TYPE_CHECKING:
    from ahac.sim import Parameters

__all__ = ["DELAY", "SimulatedRobot", "observation_of"]

DELAY = "actuator_delay"
"""The delay shifts recorded controls; the simulator does not know about it."""
OFFSET = "joint_offset"


class SimulatedRobot:
    """Steps of a simulator whose state is x = (q, v, act): float64 outside, the simulator's own precision inside."""

    def __init__(
        self, parameters: Parameters, make: Callable[[int, Parameters | None], Simulator], worlds: int, rows: int
    ) -> None:
        """Create the simulators.

        Args:
            parameters: All parameters, in whose order values are given.
            make: Returns a simulator for a number of worlds and the parameters of its steps.
            worlds: Number of states that are usually stepped at once.
            rows: Number of states whose Jacobians are usually computed at once.
        """
        model = parameters.model
        self._size = parameters.size
        names = [name for name in parameters.names if name != DELAY]
        self._columns = [i for name in names for i in parameters.index(name)]
        inputs = model.parameters(*names) if names else None
        self._stepping, self._deriving = make(worlds, inputs), make(rows * (model.nq + model.nv + model.na), inputs)
        self._widths = [model.nq, model.nv, model.na]
        self.num_states = sum(self._widths)
        self.device = self._stepping.device

    def step(self, x: Tensor, u: Tensor, p: Tensor) -> Tensor:
        """Return the next states [N, nx]."""
        sim = self._stepping
        with torch.no_grad():
            parts = [
                self._vector(self._next(sim, _filled(a, sim), _filled(b, sim), self._values(sim, p)))[: len(a)]
                for a, b in zip(x.split(sim.num_worlds), u.split(sim.num_worlds), strict=True)
            ]
        return torch.cat(parts).to(x)

    def jacobian(self, x: Tensor, u: Tensor, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return ∂x'/∂x [N, nx, nx], ∂x'/∂u [N, nx, nu] and ∂x'/∂p [N, nx, P]."""
        sim = self._deriving
        rows = sim.num_worlds // self.num_states
        parts = [self._derive(sim, a, b, p) for a, b in zip(x.split(rows), u.split(rows), strict=True)]
        by_x, by_u, by_p = (torch.cat(each).to(x) for each in zip(*parts, strict=True))
        return by_x, by_u, by_p

    def _derive(self, sim: Simulator, x: Tensor, u: Tensor, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        count, nx = len(x), self.num_states
        inputs = [_filled(each.repeat_interleave(nx, dim=0), sim).requires_grad_() for each in (x, u)]
        values = self._values(sim, p)
        if values is not None:
            inputs.append(values.requires_grad_())
        end = self._vector(self._next(sim, inputs[0], inputs[1], values))
        seeds = torch.eye(nx, dtype=sim.dtype, device=sim.device).repeat(sim.num_worlds // nx, 1)
        gradients = torch.autograd.grad(end, inputs, seeds)
        shaped = [g[: count * nx].unflatten(0, (count, nx)) for g in gradients]
        by_p = x.new_zeros(count, nx, self._size)
        if values is not None:
            by_p[:, :, self._columns] = shaped[2].to(x)
        return shaped[0], shaped[1], by_p

    def _next(self, sim: Simulator, x: Tensor, u: Tensor, values: Tensor | None) -> State:
        q, v, act = x.split(self._widths, dim=1)
        state = State(q.contiguous(), v.contiguous(), act=act.contiguous() if self._widths[2] else None)
        return sim.step(state, u, parameters=values)

    def _values(self, sim: Simulator, p: Tensor) -> Tensor | None:
        if not self._columns:
            return None
        return p[self._columns].to(sim.dtype).repeat(sim.num_worlds, 1)

    @staticmethod
    def _vector(state: State) -> Tensor:
        return torch.cat([state.q, state.v] + ([] if state.act is None else [state.act]), dim=1)


def _filled(rows: Tensor, sim: Simulator) -> Tensor:
    """Return rows in the simulator's precision, the last one repeated until there is one for each world."""
    missing = sim.num_worlds - len(rows)
    return torch.cat([rows, rows[-1:].expand(missing, -1)]).to(sim.dtype) if missing else rows.to(sim.dtype)


def observation_of(
    parameters: Parameters, states: int, channels: int, dt: float, device: torch.device
) -> Observation:
    """Return which states are measured, and with which offsets and delay."""
    offsets = torch.zeros(states, parameters.size, dtype=torch.float64, device=device)
    coordinates = {joint.name: joint.q for joint in parameters.model.joints}
    for name in parameters.names:
        kind, _, joint = name.partition(":")
        if kind == OFFSET:
            offsets[coordinates[joint], parameters.index(name)] = 1.0
    delay = parameters.index(DELAY)[0] if DELAY in parameters.names else None
    return Observation(offsets, channels, dt, delay)
