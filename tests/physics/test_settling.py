"""Robots that are left alone come to rest on the default ground, which then carries their weight."""

from itertools import product

import pytest
import torch

from ahac.sim import ContactMaterial, Integrator, Simulator, load_model
from support.integrators import INTEGRATORS
from support.marks import keep
from support.robots import gymnasium_file

SECONDS = 5.0
# Friction is viscous below the cone, so that limbs creep where they lean on each other.
CREEP = 0.2  # [m/s] or [rad/s]
# What is left of the last bounce.
STILL_MOVING = 0.1


@pytest.mark.parametrize(("robot", "integrator"), keep(1, product(["hopper", "ant", "half_cheetah"], INTEGRATORS)))
def test_a_robot_settles_and_the_ground_carries_its_weight(
    robot: str, integrator: Integrator, device: torch.device
) -> None:
    model = load_model(gymnasium_file(robot), contact=ContactMaterial(friction=0.8))
    sim = Simulator(model, num_worlds=2, dt=1 / 60, substeps=16, device=device, integrator=integrator)
    state = sim.rest_state()
    with torch.no_grad():
        for _ in range(round(60 * SECONDS)):
            state = sim.step(state)
    weight = -model.gravity[2] * sum(link.mass for link in model.links)
    carried = sim.contacts(state).force[..., 2].sum(dim=1)
    assert state.v.abs().max() < CREEP
    assert carried.tolist() == pytest.approx([weight, weight], rel=STILL_MOVING)
