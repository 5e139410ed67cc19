"""A simulated robot as a discrete-time system with Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ahac.identification.dynamics import Observation
from ahac.sim import JointKind, Simulator, State

if TYPE_CHECKING:
    from ahac.sim import Parameters

__all__ = ["SimulatedRobot", "observation_of"]

DELAY = "actuator_delay"
"""The delay shifts recorded controls; the simulator does not know about it."""
OFFSET = "joint_offset"


class SimulatedRobot:
    """Steps of a simulator whose state is x = (q, v, act): float64 outside, the simulator's own precision inside.

    Args:
        parameters: All parameters, in whose order values are given.
        make: Returns the simulator of the given parameters.
    """

    def __init__(self, parameters: Parameters, make: Callable[[Parameters | None], Simulator]) -> None:
        model = parameters.model
        self.model = model
        self.tangent_size = 2 * model.nv + model.na
        names = [name for name in parameters.names if name != DELAY]
        self._delay = parameters.index(DELAY)[0] if DELAY in parameters else None
        self._columns = [i for name in names for i in parameters.index(name)]
        self._sim = make(model.parameters(*names) if names else None)
        self._widths = [model.nq, model.nv, model.na]
        self._latest: tuple[Tensor, Tensor | None] | None = None
        self._rotations = [(joint.q, joint.v) for joint in model.joints if joint.kind is JointKind.BALL]
        self._others = [(joint.q, joint.v) for joint in model.joints if joint.kind is not JointKind.BALL]

    @property
    def device(self) -> torch.device:
        """Device of all tensors."""
        return self._sim.device

    def step(self, x: Tensor, u: Tensor, p: Tensor) -> Tensor:
        """Return the next states [N, nx]; rows beyond the simulator's number of worlds follow in further batches."""
        sim = self._sim
        if self._latest is None or self._latest[0] is not p:
            self._latest = p, self._values(sim.num_worlds, p)
        values = self._latest[1]
        parts = []
        with torch.no_grad():
            for rows, controls in zip(x.split(sim.num_worlds), u.split(sim.num_worlds), strict=True):
                filled = (self._filled(each) for each in (rows, controls))
                end = sim.step(self._state(next(filled)), next(filled), parameters=values)
                parts.append(_vector(end)[: len(rows)])
        return torch.cat(parts).to(x)

    def jacobian(self, x: Tensor, u: Tensor, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return ∂x'/∂x [N, nt, nt], ∂x'/∂u [N, nt, nu] and ∂x'/∂p [N, nt, P], in the simulator's precision."""
        dtype = self._sim.dtype
        found = self._sim.jacobian(self._state(x.to(dtype)), u.to(dtype).contiguous(), self._values(len(x), p))
        by_p = found.parameters
        if self._delay is not None:
            none = by_p.new_zeros(len(x), self.tangent_size, 1)
            by_p = torch.cat([by_p[..., : self._delay], none, by_p[..., self._delay :]], dim=-1)
        return found.state, found.control, by_p

    def move(self, x: Tensor, step: Tensor) -> Tensor:
        """Return the states [..., nx] displaced by small steps [..., nt]."""
        nq, nv = self._widths[:2]
        moved = torch.cat([x[..., :nq], x[..., nq:] + step[..., nv:]], dim=-1)
        for q, v in self._others:
            moved[..., q] += step[..., v]
        for q, v in self._rotations:
            turn = 0.5 * step[..., v : v + 3]
            real, vector = moved[..., q : q + 1], moved[..., q + 1 : q + 4]
            change = torch.cat([-(vector * turn).sum(-1, True), real * turn + torch.linalg.cross(vector, turn)], dim=-1)
            moved[..., q : q + 4] = torch.nn.functional.normalize(moved[..., q : q + 4] + change, dim=-1)
        return moved

    def difference(self, x: Tensor, measured: Tensor) -> Tensor:
        """Return states minus measurements [..., channels]; rotations as rotation vectors in the joint's axes."""
        nq, nv = self._widths[:2]
        parts = x.new_empty(*x.shape[:-1], nv)
        for q, v in self._others:
            parts[..., v] = x[..., q] - measured[..., q]
        for q, v in self._rotations:
            a, b = measured[..., q : q + 4], x[..., q : q + 4]
            real = (a * b).sum(-1, True)
            vector = a[..., :1] * b[..., 1:] - b[..., :1] * a[..., 1:] - torch.linalg.cross(a[..., 1:], b[..., 1:])
            parts[..., v : v + 3] = 2.0 * vector * torch.where(real < 0.0, -1.0, 1.0)
        return torch.cat([parts, x[..., nq : measured.shape[-1]] - measured[..., nq:]], dim=-1)

    def _state(self, x: Tensor) -> State:
        q, v, act = (part.contiguous() for part in x.split(self._widths, dim=1))
        return State(q, v, act=act if self.model.na else None)

    def _values(self, rows: int, p: Tensor) -> Tensor | None:
        return p[self._columns].to(self._sim.dtype).repeat(rows, 1) if self._columns else None

    def _filled(self, rows: Tensor) -> Tensor:
        """Return rows in the simulator's precision, the last one repeated until there is one for each world."""
        missing = self._sim.num_worlds - len(rows)
        return torch.cat([rows, rows[-1:].expand(missing, -1)]).to(self._sim.dtype)


def _vector(state: State) -> Tensor:
    return torch.cat([state.q, state.v] + ([] if state.act is None else [state.act]), dim=1)


def observation_of(parameters: Parameters, channels: int, dt: float, device: torch.device) -> Observation:
    """Return what is measured, and with which offsets and delay."""
    model = parameters.model
    offsets = torch.zeros(2 * model.nv + model.na, parameters.size, dtype=torch.float64, device=device)
    coordinates = {joint.name: joint.v for joint in model.joints}
    for name in parameters.names:
        kind, _, joint = name.partition(":")
        if kind == OFFSET:
            offsets[coordinates[joint], parameters.index(name)] = 1.0
    fixed = torch.zeros(len(offsets), dtype=torch.float64, device=device)
    for joint in model.joints:
        if f"{OFFSET}:{joint.name}" not in parameters:
            fixed[joint.v] = model.joint_offsets.get(joint.q, 0.0)
    delay = parameters.index(DELAY)[0] if DELAY in parameters else None
    return Observation(offsets, fixed, channels, dt, delay)
