"""What the simulator tells of contacts, by hand; and a contact law of the user's own."""

import numpy as np
import pytest
import torch

from ahac.sim import ContactMaterial, Integrator, Real, Simulator, State, Vec3, load_model, penalty
from ahac.sim.model.types import ContactConstants
from support.integrators import INTEGRATORS
from support.robots import FREE_SPHERE

WORLDS = 4

CLOSE = 1e-9
"""Forces of up to 1e3 N in float64, from depths that are differences of numbers of order one."""


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_contacts_are_those_of_the_law(integrator: Integrator, device: torch.device) -> None:
    """The force now, at the depth and velocity now, whichever integrator is used."""
    material = ContactMaterial(stiffness=2e3, damping=3e2, viscosity=40.0, friction=0.5)
    model = load_model(FREE_SPHERE, contact=material)
    sim = Simulator(
        model, num_worlds=WORLDS, dt=0.01, substeps=1, device=device, dtype=torch.float64, integrator=integrator
    )
    depth = np.array([-0.02, 0.01, 0.03, 0.02])
    q = np.tile([5.0, -3.0, 0.0, 1.0, 0.0, 0.0, 0.0], (WORLDS, 1))
    q[:, 2] = 0.1 - depth
    v = np.array(
        [[1.0, 0, -1, 0, 0, 0], [3, -4, -2, 0, 0, 0], [0.1, 0.2, 1.5, 0, 0, 0], [0, 0, 0, 2, -1, 9]], dtype=float
    )
    found = sim.contacts(State(torch.tensor(q, device=device), torch.tensor(v, device=device)))
    velocity = v[:, :3] + np.cross(v[:, 3:], [0.0, 0.0, -0.1])
    d = np.maximum(depth, 0.0)
    damping = 3e2 * d
    damped = velocity[:, 2]
    if integrator == "explicit":  # penalty
        damped = np.minimum(damped, 0.0)
    normal = 2e3 * d - damping * damped
    load = normal if integrator == "implicit" else 2e3 * d
    slip = velocity * [1.0, 1.0, 0.0]
    speed = np.linalg.norm(slip, axis=1)
    drag = np.minimum(40.0 * speed, 0.5 * load) / speed
    force = -slip * drag[:, None] + np.outer(normal, [0.0, 0.0, 1.0])
    # One world slides, one sticks: both sides of the friction cone are seen.
    assert (drag[1] < 40.0, drag[2] == 40.0) == (True, True)
    np.testing.assert_allclose(found.depth[:, 0].cpu(), depth, atol=1e-15)
    np.testing.assert_allclose(found.velocity[:, 0].cpu(), velocity, rtol=CLOSE, atol=CLOSE)
    np.testing.assert_allclose(found.force[:, 0].cpu(), force, rtol=CLOSE, atol=CLOSE)
    by_depth = np.zeros((WORLDS, 3))
    by_depth[1:, 2] = 2e3 - 3e2 * damped[1:]
    by_depth[1, :2] = -0.5 * load[1] / d[1] * slip[1, :2] / speed[1]
    np.testing.assert_allclose(found.force_by_depth[2:, 0].cpu(), by_depth[2:], atol=1e-7)
    np.testing.assert_allclose(found.force_by_depth[1, 0].cpu(), by_depth[1], atol=1e-7)
    sticking = found.force_by_velocity[2, 0].cpu().numpy()
    np.testing.assert_allclose(sticking, np.diag([-40.0, -40.0, -damping[2] * (integrator == "implicit")]), atol=1e-7)
    assert found.force_by_velocity[1, 0, 2, 2].item() == pytest.approx(-damping[1])


def half_spring(depth: Real, velocity: Vec3, normal: Vec3, material: ContactConstants) -> Vec3:
    """A spring without friction, half as stiff."""
    return normal * (depth * (0.5 * material.stiffness))


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_contact_law_can_be_replaced(integrator: Integrator, device: torch.device) -> None:
    stiffness = 1e4
    sim, usual = (
        Simulator(
            load_model(FREE_SPHERE, contact=ContactMaterial(stiffness=stiffness)),
            num_worlds=WORLDS,
            dt=0.01,
            substeps=2,
            device=device,
            dtype=torch.float64,
            contact_law=law,
            integrator=integrator,
        )
        for law in (half_spring, penalty)
    )
    start = sim.rest_state()
    start.q[:, 2] = 0.08
    start.v[:] = torch.arange(6.0)
    force = sim.contacts(start).force[:, 0]
    wanted = torch.tensor([0.0, 0.0, 0.5 * stiffness * 0.02], dtype=torch.float64, device=device)
    torch.testing.assert_close(force, wanted.expand(WORLDS, 3), rtol=CLOSE, atol=CLOSE)
    rate = sim.acceleration(start.q, start.v, torch.zeros_like(start.v), contact=True)[:, :3]
    torch.testing.assert_close(
        rate, (wanted / 2.0 - wanted.new_tensor([0.0, 0.0, 9.81])).expand(WORLDS, 3), rtol=CLOSE, atol=CLOSE
    )
    assert not torch.equal(sim.step(start).v, usual.step(start).v)
