"""How gradients run through compiled steps: over many steps, between worlds, and where they are cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ahac.sim import AhacError, Simulator, State, Vec3, World, load_model
from gradients import models
from gradients.contact_cases import contacts

WORLDS = 11
"""Not a multiple of any number of lanes."""

DT, SUBSTEPS = 4e-3, 4
CHAIN = 1e-10
"""Relative, for the same derivative by another route in float64. Rounding leaves 1e-14."""

MOTOR = '<actuator><motor joint="hinge" gear="2"/><motor joint="free" gear="0 0 1 0.3 0.2 0.1"/></actuator>'
LEG = models.touching("capsule", friction=0.75).replace("</mujoco>", f"{MOTOR}</mujoco>")
Sample = tuple[Tensor, Tensor, Tensor]


def reach(world: World) -> Vec3:
    """A readout of the end, the start and the controls."""
    assert world.before is not None
    last = list(world.model.bodies)[-1]
    return (world.position(last) - world.before.position(last)) * world.control[0]


@pytest.fixture(scope="module")
def leg(device: torch.device) -> Simulator:
    """A capsule with a hinged tail over the ground, and a motor on each joint."""
    return simulator(device, DT, SUBSTEPS)


def simulator(device: torch.device, dt: float, substeps: int) -> Simulator:
    return Simulator(
        load_model(LEG),
        num_worlds=WORLDS,
        dt=dt,
        substeps=substeps,
        device=device,
        dtype=torch.float64,
        readouts={"reach": reach},
    )


@pytest.fixture
def sample(leg: Simulator) -> Sample:
    """q, v and u of worlds of which some touch the ground."""
    rng, m = torch.Generator().manual_seed(5), leg.model

    def noise(width: int) -> Tensor:
        return torch.randn(WORLDS, width, generator=rng, dtype=torch.float64)

    q = torch.tensor(m.rest_q) + 0.1 * noise(m.nq)
    v = noise(m.nv)
    u = noise(m.nu)
    q[:, 2] = torch.linspace(0.0, 0.4, WORLDS)
    touching = contacts(m, {"q": q.numpy(), "v": v.numpy()})["depth"] > 0.0
    assert touching.any()
    assert not touching.all()
    q, v, u = (x.to(leg.device).requires_grad_() for x in (q, v, u))
    return q, v, u


def loss(end: State) -> Tensor:
    """[N], of everything a step returns, with weights that no two numbers share."""
    numbers = torch.cat([end.q, end.v, *end.readouts.values()], dim=-1)
    return (torch.cos(numbers) * torch.arange(1.0, numbers.shape[-1] + 1.0).to(numbers)).sum(-1)


def close(got: Tensor, wanted: Tensor) -> bool:
    return bool((got - wanted).norm() <= CHAIN * wanted.norm()) and bool(wanted.norm() > 0.0)


def test_many_substeps_at_once_are_a_chain_of_steps(leg: Simulator, sample: Sample, device: torch.device) -> None:
    """Control and readouts of the chain are those of the whole: a held control, positions at both ends."""
    q, v, u = sample
    whole = simulator(device, 5 * DT, 5 * SUBSTEPS).step(State(q, v), u)
    state = State(q, v)
    for _ in range(5):
        state = leg.step(state, u)
    ends = ((whole.q, whole.v), (state.q, state.v))
    wanted, got = (torch.autograd.grad(loss(State(*end)).sum(), sample) for end in ends)
    assert all(close(g, w) for g, w in zip(got, wanted, strict=True))


def test_a_world_feels_no_other_world(leg: Simulator, sample: Sample) -> None:
    q, v, u = sample
    for world in (0, WORLDS - 1):
        end = leg.step(State(q, v), u)
        for gradient in torch.autograd.grad(loss(end)[world], sample):
            others = torch.arange(WORLDS) != world
            assert torch.all(gradient[others.to(gradient.device)] == 0.0)
            assert torch.any(gradient[world] != 0.0)


def test_a_world_gives_the_same_gradient_in_any_company(leg: Simulator, sample: Sample) -> None:
    """Wherever it stands in the batch, the last and only partly filled block included."""
    order = torch.randperm(WORLDS, generator=torch.Generator().manual_seed(6)).to(leg.device)
    plain = torch.autograd.grad(loss(leg.step(State(*sample[:2]), sample[2])).sum(), sample)
    mixed = [x.detach()[order].requires_grad_() for x in sample]
    shuffled = torch.autograd.grad(loss(leg.step(State(mixed[0], mixed[1]), mixed[2])).sum(), mixed)
    assert all(torch.equal(s, p[order]) for s, p in zip(shuffled, plain, strict=True))


def test_detach_cuts(leg: Simulator, sample: Sample) -> None:
    q, v, u = sample
    first = u.detach().clone().requires_grad_()
    second = u.detach().clone().requires_grad_()
    middle = leg.step(State(q, v), first).detach()
    assert not any(x.requires_grad for x in (middle.q, middle.v, *middle.readouts.values()))
    before, after = torch.autograd.grad(loss(leg.step(middle, second)).sum(), (first, second), allow_unused=True)
    assert before is None
    assert torch.any(after != 0.0)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2)], ids=["q", "v", "u", "q and u"])
def test_gradients_of_some_inputs_are_those_of_all(leg: Simulator, sample: Sample, wanted: tuple[int, ...]) -> None:
    everything = torch.autograd.grad(loss(leg.step(State(*sample[:2]), sample[2])).sum(), sample)
    some = [x.detach().requires_grad_(k in wanted) for k, x in enumerate(sample)]
    end = leg.step(State(some[0], some[1]), some[2])
    found = torch.autograd.grad(loss(end).sum(), [some[k] for k in wanted])
    assert all(torch.equal(g, everything[k]) for g, k in zip(found, wanted, strict=True))


def test_a_control_used_twice_collects_both_gradients(leg: Simulator, sample: Sample) -> None:
    q, v, u = sample
    apart = [u.detach().clone().requires_grad_() for _ in range(2)]

    def both(first: Tensor, second: Tensor) -> Tensor:
        middle = leg.step(State(q, v), first)
        return loss(leg.step(middle, second)).sum() + loss(middle).sum()

    [together] = torch.autograd.grad(both(u, u), u)
    first, second = torch.autograd.grad(both(*apart), apart)
    assert close(together, first + second)


def test_the_layout_of_tensors_does_not_matter(leg: Simulator, sample: Sample) -> None:
    """Columns with gaps between them, transposed, expanded; and an adjoint that is one number for all."""
    q, v, u = (x.detach() for x in sample)
    u = u[:1].expand_as(u)
    plain = [x.clone(memory_format=torch.contiguous_format).requires_grad_() for x in (q, v, u)]
    odd = [q.repeat_interleave(2, dim=1)[:, ::2], v.t().contiguous().t(), u]
    assert not any(x.is_contiguous() for x in odd)
    odd = [x.requires_grad_() for x in odd]
    found = [torch.autograd.grad(leg.step(State(x[0], x[1]), x[2]).q.sum(), x) for x in (plain, odd)]
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("straight", [True, False], ids=["linear loss", "curved loss"])
@pytest.mark.parametrize("ask", [Tensor.backward, torch.autograd.grad], ids=["backward", "grad"])
def test_a_second_derivative_is_refused(
    leg: Simulator, sample: Sample, ask: Callable[..., object], straight: bool
) -> None:
    """A penalty on a gradient would otherwise count as a constant, and training would go on without it."""
    q, v, u = sample
    end = leg.step(State(q, v), u)
    [first] = torch.autograd.grad(end.q.sum() if straight else loss(end).sum(), u, create_graph=True)
    with pytest.raises(AhacError, match="second derivative"):
        ask(first.square().sum() + u.square().sum(), inputs=[u])
