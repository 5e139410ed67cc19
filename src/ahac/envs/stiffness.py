"""Stiffness of a control step, per world, measured by one of several signals.

    dynamics             ‖∇f(s, a)‖_F of the whole control step f, in tangent coordinates; exact, or estimated with
                         random probes w of ±1, since E ‖∇fᵀ w‖² = ‖∇f‖_F². Not differentiable.
    contact              ‖∇f_contact‖ = sqrt( Σ_points ‖∂f/∂depth‖² + ‖∂f/∂u‖² ), at the end of the step
    contact_normalized   the same, with each row of the Jacobian multiplied by max(a, 1), where a is the acceleration of
                         the point along that row's axis
    force                ‖F / max(A, 1)‖ over the links, where F is the contact wrench about the root and A the
                         acceleration due to velocity products, relative to the root. The released code constrains the
                         same quantity about the world's origin.

The three contact signals are differentiable in the state, and therefore in all actions that led to it. A task's memory,
parameters and earlier controls count as constants of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from ahac.core.checks import check_int
from ahac.core.env import STIFFNESS_SIGNALS, Step
from ahac.core.errors import InputError
from ahac.envs.state import TaskState
from ahac.sim import Simulator, State
from ahac.sim.tangent import from_tangent, to_tangent

__all__ = ["stiffness"]


def stiffness(
    sim: Simulator,
    step: Step,
    signal: str,
    probes: int | None,
    draw: Callable[[int], Tensor],
    context: Mapping[str, Tensor],
) -> Tensor:
    """Return a stiffness signal of a step, [N]; zero in worlds that diverged in this step.

    Args:
        sim: The simulator that made the step.
        step: Result of the step.
        signal: One of `STIFFNESS_SIGNALS`.
        probes: Number of random probes for "dynamics"; None computes the exact norm.
        draw: `draw(k)` returns uniform noise [N, k], for the probes.
        context: Context of the simulator's step.
    """
    if signal not in STIFFNESS_SIGNALS:
        raise InputError(f"no stiffness signal named {signal!r}; known: {', '.join(STIFFNESS_SIGNALS)}")
    if probes is not None:
        probes = check_int("probes", probes, 1)
        if signal != "dynamics":
            raise InputError(f"probes apply only to the signal 'dynamics', got {probes} for {signal!r}; omit them")
    if signal == "dynamics":
        return torch.where(step.diverged, 0.0, _dynamics(sim, step, probes, draw, context))
    if not sim.model.contact_candidates:
        return torch.zeros_like(step.reward)
    # In diverged worlds use the detached state before the step: no NaN enters the graph, and no gradient flows back.
    before, after = (State(s.q, s.v, act=s.act) for s in (step.state, step.next_state))
    end = before.detach().where(step.diverged, after)
    past, parameters, memory = _further_inputs(step)
    if signal == "force":
        square = _force(sim, end, parameters)
    elif signal == "contact":
        square = _contact(sim, end, parameters)
    else:
        end = replace(end, past_controls=past)
        control = _control(step.action, past)
        accelerations = sim.contact_accelerations(end, control, parameters=parameters, memory=memory)
        square = _contact(sim, end, parameters, accelerations)
    # sqrt has no finite derivative at zero: without contact, value and gradient are zero.
    touching = (square > 0.0) & ~step.diverged
    return torch.where(touching, torch.where(touching, square, 1.0).sqrt(), 0.0)


def _dynamics(
    sim: Simulator, step: Step, probes: int | None, draw: Callable[[int], Tensor], context: Mapping[str, Tensor]
) -> Tensor:
    """Compute ‖∂s'/∂(s, a)‖_F, [N]: exactly with one adjoint launch per row, or estimated with random probes."""
    q, v = (x.detach().requires_grad_() for x in (step.state.q, step.state.v))
    act = None if step.state.act is None else step.state.act.detach().requires_grad_()
    action = step.action.detach().requires_grad_()
    past, parameters, memory = _further_inputs(step)
    with torch.enable_grad():
        start = State(q, v, act=act, past_controls=past)
        end = sim.step(start, _control(action, past), context=context, parameters=parameters, memory=memory)
    inputs, outputs = (q, v, action), (end.q, end.v)
    if act is not None and end.act is not None:
        inputs, outputs = (*inputs, act), (*outputs, end.act)
    total = torch.zeros_like(step.reward)
    rows = list(_unit_vectors(sim) if probes is None else _random_signs(sim, probes, draw))
    for row in rows:
        positions, velocities, activations = row.split([sim.model.nv, sim.model.nv, sim.model.na], dim=-1)
        cotangents = (from_tangent(sim.model, end.q.detach(), positions), velocities.contiguous())
        if act is not None:
            cotangents = (*cotangents, activations.contiguous())
        bars = torch.autograd.grad(outputs, inputs, cotangents, retain_graph=True)
        tangent = (to_tangent(sim.model, q.detach(), bars[0]), *bars[1:])
        total = total + sum(bar.square().sum(dim=-1) for bar in tangent)
    return (total if probes is None else total / probes).sqrt()


def _contact(sim: Simulator, end: State, parameters: Tensor | None, accelerations: Tensor | None = None) -> Tensor:
    """Compute ‖∇f_contact‖², [N]; rows are weighted by accelerations, if given."""
    contacts = sim.contacts(end, parameters)
    jacobian = torch.cat([contacts.force_by_depth[..., None], contacts.force_by_velocity], dim=-1)
    if accelerations is not None:
        jacobian = jacobian * accelerations.clamp(min=1.0)[..., None]
    return jacobian.square().sum(dim=(1, 2, 3))


def _force(sim: Simulator, end: State, parameters: Tensor | None) -> Tensor:
    """Compute ‖F / max(A, 1)‖², [N]."""
    wrenches = sim.contact_wrenches(end, parameters)
    return (wrenches.wrench / wrenches.velocity_product_acceleration.clamp(min=1.0)).square().sum(dim=(1, 2))


def _further_inputs(step: Step) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return earlier controls, parameters and memory of a step, as constants."""
    state = step.state
    if not isinstance(state, TaskState):
        return None, None, None
    past, parameters, memory = (
        x if x is None else x.detach() for x in (state.past_controls, state.parameters, state.memory)
    )
    return past, parameters, memory


def _control(action: Tensor, past: Tensor | None) -> Tensor:
    """Return the controls of the step: with delays, actions are clipped before they are delayed."""
    return action if past is None else action.clamp(-1.0, 1.0)


def _unit_vectors(sim: Simulator) -> Iterator[Tensor]:
    """Return all unit vectors of the tangent space of states."""
    eye = torch.eye(2 * sim.model.nv + sim.model.na, device=sim.device, dtype=sim.dtype)
    return (row.expand(sim.num_worlds, -1) for row in eye)


def _random_signs(sim: Simulator, probes: int, draw: Callable[[int], Tensor]) -> Iterator[Tensor]:
    """Draw random vectors of ±1."""
    for _ in range(probes):
        yield torch.where(draw(2 * sim.model.nv + sim.model.na) < 0.5, -1.0, 1.0).to(sim.dtype)
