"""Jacobians of a step: one launch of its adjoint for each row, over all worlds."""

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


def step_jacobian(
    step: Callable[[State, Tensor, Tensor | None], State],
    model: Model,
    state: State,
    control: Tensor,
    parameters: Tensor | None,
) -> StepJacobian:
    """Return the derivatives of the function `step(state, control, parameters)`."""
    q, v, u = (x.detach().requires_grad_() for x in (state.q, state.v, control))
    act, p = (None if x is None else x.detach().requires_grad_() for x in (state.act, parameters))
    past = None if state.past_controls is None else state.past_controls.detach()
    with torch.enable_grad():
        end = step(State(q, v, act=act, past_controls=past), u, p)
    inputs = [x for x in (q, v, act, u, p) if x is not None]
    outputs = [x for x in (end.q, end.v, end.act) if x is not None]
    rows: list[list[Tensor]] = []
    size = 2 * model.nv + model.na
    for unit in torch.eye(size, device=q.device, dtype=q.dtype):
        positions, *others = unit.expand(len(q), -1).split([model.nv, model.nv, model.na], dim=-1)
        seeds = [from_tangent(model, end.q.detach(), positions), *others][: len(outputs)]
        last = len(rows) == size - 1
        by_q, *rest = torch.autograd.grad(outputs, inputs, seeds, retain_graph=not last)
        rows.append([to_tangent(model, q.detach(), by_q), *rest])
    blocks = iter([torch.stack(column, dim=1) for column in zip(*rows, strict=True)])
    none = q.new_zeros(len(q), size, 0)
    return StepJacobian(
        next_state=end.detach(),
        q=next(blocks),
        v=next(blocks),
        act=none if act is None else next(blocks),
        control=next(blocks),
        parameters=none if p is None else next(blocks),
    )
