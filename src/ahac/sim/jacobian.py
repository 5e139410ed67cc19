"""Jacobians of a step, row by row from its adjoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.sim.model.types import Model
from ahac.sim.state import State
from ahac.sim.tangent import from_tangent, to_tangent

__all__ = ["StepJacobian", "step_jacobian"]


@dataclass(frozen=True, eq=False)
class StepJacobian:
    """Derivatives of the state after a step, in the layout of MuJoCo's mjd_transitionFD.

    Rows are the changes of positions (nv), velocities (nv) and activations (na) after the step. Changes of positions
    are in the coordinates of velocities: small rotations instead of quaternions.
    """

    next_state: State
    """State after the step."""
    q: Tensor
    """[N, 2 nv + na, nv] by positions, in the coordinates of velocities."""
    v: Tensor
    """[N, 2 nv + na, nv] by velocities."""
    act: Tensor
    """[N, 2 nv + na, na] by activations."""
    control: Tensor
    """[N, 2 nv + na, nu] by controls."""
    parameters: Tensor
    """[N, 2 nv + na, P] by the declared parameters."""

    @property
    def state(self) -> Tensor:
        """[N, 2 nv + na, 2 nv + na] by the state: MuJoCo's matrix A."""
        return torch.cat([self.q, self.v, self.act], dim=-1)


Advance = Callable[..., tuple[Tensor, ...]]
"""Maps positions, velocities, activations, controls, parameters and memory to the state after a step."""


def step_jacobian(
    advance: Advance,
    model: Model,
    state: State,
    control: Tensor,
    parameters: Tensor | None,
    memory: Tensor | None,
    together: bool,
) -> StepJacobian:
    """Return the derivatives of a step.

    Args:
        advance: The step.
        model: The robot.
        state: State before the step, with activations if the model has any.
        control: Controls.
        parameters: Parameters, if the simulator has any.
        memory: Memory, if the simulator has any; it counts as a constant.
        together: Whether one launch computes all rows, in copies of the worlds, rather than one launch per row.
    """
    worlds, size = len(state.q), 2 * model.nv + model.na
    copies = size if together else 1
    variables = (state.q, state.v, state.act, control, parameters)
    tensors = [None if x is None else x.detach().repeat(copies, 1).requires_grad_() for x in variables]
    constant = None if memory is None else memory.detach().repeat(copies, 1)
    with torch.enable_grad():
        ends = advance(*tensors, constant)
    inputs = [x for x in tensors if x is not None]
    end = [x.detach()[:worlds] for x in ends]
    seeds = _seeds(model, end[0], size)[: len(ends)]
    rows = [
        torch.autograd.grad(ends, inputs, [seed[i : i + copies].flatten(0, 1) for seed in seeds], retain_graph=True)
        for i in range(0, size, copies)
    ]
    blocks = [torch.cat(column).view(size, worlds, -1) for column in zip(*rows, strict=True)]
    blocks[0] = to_tangent(model, state.q.detach(), blocks[0])
    given = iter([block.transpose(0, 1) for block in blocks])
    by_q, by_v, by_act, by_control, by_parameters = (
        state.q.new_zeros(worlds, size, 0) if x is None else next(given) for x in tensors
    )
    next_state = State(end[0], end[1], act=end[2] if model.na else None)
    return StepJacobian(next_state, by_q, by_v, by_act, by_control, by_parameters)


def _seeds(model: Model, q: Tensor, size: int) -> list[Tensor]:
    """Return the unit covectors on the state in all worlds, as covectors [size, N, ...] on q, v and act."""
    units = torch.eye(size, device=q.device, dtype=q.dtype)[:, None].expand(size, len(q), size)
    positions, velocities, activations = units.split([model.nv, model.nv, model.na], dim=-1)
    return [from_tangent(model, q, positions), velocities, activations]
