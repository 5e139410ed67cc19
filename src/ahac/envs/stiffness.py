"""How stiff a control step was, per world, by one of several signals.

    dynamics             ‖∇f(s, a)‖_F of the whole control step f, in tangent coordinates; by probes w of ±1,
                         E ‖∇fᵀ w‖² = ‖∇f‖_F². Without gradients of its own.
    contact              ‖∇f_contact‖ = sqrt( Σ_points ‖∂f/∂depth‖² + ‖∂f/∂u‖² ), at the end of the step
    contact_normalised   the same with each row of the Jacobian times max(a, 1), a the point's acceleration along it
    force                ‖F / max(A, 1)‖ over the links, F the contact wrench about the root and A the acceleration by
                         velocity products: what the released code constrains, about and seen from the root

The three contact signals are differentiable in the state, and so in all actions that led to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from ahac.core.checks import check_int
from ahac.core.env import Step
from ahac.core.errors import InputError
from ahac.sim import JointKind, Simulator, State

__all__ = ["SIGNALS", "stiffness"]

SIGNALS = ("dynamics", "contact", "contact_normalised", "force")


def stiffness(
    sim: Simulator,
    step: Step,
    signal: str,
    probes: int | None,
    draw: Callable[[int], Tensor],
    context: Mapping[str, Tensor],
) -> Tensor:
    """[N] the signal of a step; zero in worlds that the step lost. `draw(k)` is [N, k] uniform noise, for probes."""
    if signal not in SIGNALS:
        raise InputError(f"no stiffness signal named {signal!r}; known: {', '.join(SIGNALS)}")
    if probes is not None:
        probes = check_int("probes", probes, 1)
        if signal != "dynamics":
            raise InputError(f"probes are for the signal 'dynamics' alone, got {probes} for {signal!r}")
    if signal == "dynamics":
        return torch.where(step.diverged, 0.0, _dynamics(sim, step, probes, draw, context))
    if not sim.model.contact_candidates:
        return torch.zeros_like(step.reward)
    # A lost world is looked at as it was before, so that no NaN enters the graph; from there nothing flows back.
    lost = step.diverged[:, None]
    start = (step.state.q.detach(), step.state.v.detach())
    end = State(torch.where(lost, start[0], step.next_state.q), torch.where(lost, start[1], step.next_state.v))
    if signal == "force":
        square = _force(sim, end)
    else:
        square = _contact(sim, end, step.action if signal == "contact_normalised" else None)
    # The square root has no derivative at zero, where nothing touches and nothing shall flow.
    touching = (square > 0.0) & ~step.diverged
    return torch.where(touching, torch.where(touching, square, 1.0).sqrt(), 0.0)


def _dynamics(
    sim: Simulator, step: Step, probes: int | None, draw: Callable[[int], Tensor], context: Mapping[str, Tensor]
) -> Tensor:
    """[N] ‖∂s'/∂(s, a)‖_F: exact, one adjoint launch per row, or estimated by random probes."""
    q, v = (x.detach().requires_grad_() for x in (step.state.q, step.state.v))
    action = step.action.detach().requires_grad_()
    with torch.enable_grad():
        end = sim.step(State(q, v), action, context=context)
    total = torch.zeros_like(step.reward)
    chosen = list(_rows(sim) if probes is None else _signs(sim, probes, draw))
    for row in chosen:
        positions, velocities = row.split(sim.model.nv, dim=-1)
        cotangents = (_tangent_to_quaternion(sim, end.q.detach(), positions), velocities.contiguous())
        bars = torch.autograd.grad((end.q, end.v), (q, v, action), cotangents, retain_graph=True)
        tangent = (_quaternion_to_tangent(sim, q.detach(), bars[0]), *bars[1:])
        total = total + sum(bar.square().sum(dim=-1) for bar in tangent)
    return (total if probes is None else total / probes).sqrt()


def _contact(sim: Simulator, end: State, action: Tensor | None) -> Tensor:
    found = sim.contacts(end)
    jacobian = torch.cat([found.force_by_depth[..., None], found.force_by_velocity], dim=-1)
    if action is not None:
        rates = sim.contact_accelerations(end, action)
        jacobian = jacobian * rates.clamp(min=1.0)[..., None]
    return jacobian.square().sum(dim=(1, 2, 3))


def _force(sim: Simulator, end: State) -> Tensor:
    found = sim.contact_wrenches(end)
    return (found.wrench / found.velocity_product_acceleration.clamp(min=1.0)).square().sum(dim=(1, 2))


def _rows(sim: Simulator) -> Iterator[Tensor]:
    """Every unit vector of the tangent space of states."""
    eye = torch.eye(2 * sim.model.nv, device=sim.device, dtype=sim.dtype)
    return (row.expand(sim.num_worlds, -1) for row in eye)


def _signs(sim: Simulator, probes: int, draw: Callable[[int], Tensor]) -> Iterator[Tensor]:
    """Random vectors of ±1."""
    for _ in range(probes):
        yield torch.where(draw(2 * sim.model.nv) < 0.5, -1.0, 1.0).to(sim.dtype)


def _tangent_to_quaternion(sim: Simulator, q: Tensor, tangent: Tensor) -> Tensor:
    """A covector on velocities as one on positions: itself, but 2 q ⊗ (0, w) on quaternions."""
    parts = []
    for joint in sim.model.joints:
        w = tangent[:, joint.v : joint.dofs.stop]
        parts.append(
            2.0 * _quaternion_derivative(q[:, joint.q : joint.q + 4], w) if joint.kind is JointKind.BALL else w
        )
    return torch.cat(parts, dim=-1)


def _quaternion_to_tangent(sim: Simulator, q: Tensor, ambient: Tensor) -> Tensor:
    """A covector on positions as one on velocities: the transpose of ω -> ½ q ⊗ (0, ω) on quaternions."""
    parts = []
    for joint in sim.model.joints:
        if joint.kind is JointKind.BALL:
            at, bar = q[:, joint.q : joint.q + 4], ambient[:, joint.q : joint.q + 4]
            columns = [
                _quaternion_derivative(at, unit.expand(len(q), 3))
                for unit in torch.eye(3, device=q.device, dtype=q.dtype)
            ]
            parts.append(torch.stack([0.5 * (column * bar).sum(dim=-1) for column in columns], dim=-1))
        else:
            parts.append(ambient[:, joint.q : joint.q + 1])
    return torch.cat(parts, dim=-1)


def _quaternion_derivative(q: Tensor, w: Tensor) -> Tensor:
    """q ⊗ (0, w)."""
    real, vector = q[:, :1], q[:, 1:]
    return torch.cat([-(vector * w).sum(dim=-1, keepdim=True), real * w + torch.linalg.cross(vector, w)], dim=-1)
