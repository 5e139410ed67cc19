"""How steps meet autograd: what is recorded, what is refused, and what gradients do not depend on."""

import pytest
import torch
from torch import Tensor

from ahac.sim import Simulator, State, load_model
from support.robots import ROVER

WORLDS = 3

ROUNDING = 1e-12
"""Relative; the same numbers by another order of float64 operations."""


@pytest.fixture(scope="module")
def sim(device: torch.device) -> Simulator:
    return Simulator(load_model(ROVER), num_worlds=WORLDS, dt=0.01, substeps=4, device=device, dtype=torch.float64)


@pytest.fixture
def control(sim: Simulator) -> Tensor:
    return torch.tensor([[0.1], [-0.4], [0.8]], dtype=torch.float64, device=sim.device, requires_grad=True)


def test_recording_a_step_does_not_change_it(sim: Simulator, control: Tensor) -> None:
    start = sim.rest_state("low")
    recorded = sim.step(start, control)
    with torch.no_grad():
        bare = sim.step(start, control)
    with torch.inference_mode():
        plain = sim.step(start, control.detach())
    assert recorded.q.requires_grad
    assert recorded.v.requires_grad
    for other in (bare, plain, sim.step(start, control.detach())):
        assert not other.q.requires_grad
        assert torch.equal(other.q, recorded.q)
        assert torch.equal(other.v, recorded.v)


def test_detached_state_is_cut_off(sim: Simulator, control: Tensor) -> None:
    state = sim.step(sim.rest_state(), control).detach()
    assert not state.q.requires_grad
    assert not state.v.requires_grad


@pytest.mark.parametrize("what", ["control", "force", "next q", "next v"])
def test_changing_in_place_what_the_gradient_needs_is_noticed(what: str, sim: Simulator, control: Tensor) -> None:
    u = control.clone()
    force = torch.ones(WORLDS, 7, dtype=torch.float64, device=sim.device)
    after = sim.step(sim.rest_state("low"), u, force)
    loss = after.q.square().sum() + after.v.square().sum()
    with torch.no_grad():
        {"control": u, "force": force, "next q": after.q, "next v": after.v}[what].mul_(0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_gradient_reaches_only_what_asked_for_it(sim: Simulator, control: Tensor) -> None:
    start = sim.rest_state("low")
    q = start.q.clone().requires_grad_()
    sim.step(State(q, start.v), control).v.square().sum().backward()
    assert start.v.grad is None
    assert q.grad is not None
    assert control.grad is not None
    assert (control.grad.abs() > 0.0).all()


def test_force_and_motor_torque_have_the_same_gradient(sim: Simulator, control: Tensor) -> None:
    force = torch.zeros(WORLDS, 7, dtype=torch.float64, device=sim.device, requires_grad=True)
    sim.step(sim.rest_state("low"), control, force).v.square().sum().backward()
    assert control.grad is not None
    assert force.grad is not None
    # The motor's gear is 5, its joint the last coordinate.
    torch.testing.assert_close(control.grad[:, 0], 5.0 * force.grad[:, 6], rtol=ROUNDING, atol=0.0)


def test_control_held_at_its_bound_has_no_gradient(sim: Simulator) -> None:
    control = torch.tensor([[2.0], [-3.0], [0.5]], dtype=torch.float64, device=sim.device, requires_grad=True)
    sim.step(sim.rest_state("low"), control).v.sum().backward()
    assert control.grad is not None
    assert control.grad[:2].tolist() == [[0.0], [0.0]]
    assert control.grad[2].item() != 0.0
