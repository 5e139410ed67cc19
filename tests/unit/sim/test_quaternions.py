"""Quaternions that come in need not be of unit length; those that come out are."""

import numpy as np
import pytest
import torch

from ahac.sim import Simulator, State, load_model
from support.mujoco_oracle import compiled, random_states
from support.numeric_physics import Numeric
from support.robots import ROVER

WORLDS = 3

ROUNDING = 1e-11
"""Relative, of the largest number; the same numbers by another order of float64 operations."""

SCALES = [0.5, -3.0, 1e3]


@pytest.mark.parametrize("scale", SCALES)
def test_no_answer_depends_on_the_length_of_quaternions(scale: float) -> None:
    ours = Numeric(ROVER)
    q, v = random_states(compiled(ROVER), WORLDS, seed=9)
    q[:, 2] = 0.1
    longer = q.copy()
    longer[:, 3:7] *= scale
    for name, answer in {
        "mass matrix": ours.mass_matrix,
        "bias force": lambda q: ours.bias_force(q, v),
        "free acceleration": lambda q: ours.acceleration(q, v, v),
        "acceleration": lambda q: ours.acceleration(q, v, v, contact=True),
        "position": lambda q: ours.poses(q)[0],
        "rotation": lambda q: ours.poses(q)[1],
        "depth": lambda q: ours.contacts(q, v)["depth"],
        "force": lambda q: ours.contacts(q, v)["force"],
    }.items():
        wanted = answer(q)
        assert np.abs(answer(longer) - wanted).max() < ROUNDING * np.abs(wanted).max(), name


@pytest.fixture(scope="module")
def sim(device: torch.device) -> Simulator:
    model = load_model(ROVER)
    # The model's own readout of its quaternion tells what a step or a reading begins with.
    readouts = {"quaternion": lambda w: w.before.q[3:7]}
    return Simulator(
        model, num_worlds=WORLDS, dt=0.01, substeps=4, device=device, dtype=torch.float64, readouts=readouts
    )


@pytest.mark.parametrize("scale", SCALES)
def test_step_from_a_quaternion_of_any_length_is_that_from_a_unit_one(scale: float, sim: Simulator) -> None:
    start = sim.rest_state("low")
    q = start.q.clone()
    q[:, 3:7] = torch.nn.functional.normalize(torch.tensor([0.5, -0.2, 0.7, 0.1], dtype=torch.float64), dim=0)
    longer = q.clone()
    longer[:, 3:7] *= scale
    unit = sim.step(State(q, start.v))
    scaled = sim.step(State(longer.requires_grad_(), start.v))
    sign = 1.0 if scale > 0.0 else -1.0
    torch.testing.assert_close(scaled.v, unit.v, rtol=ROUNDING, atol=ROUNDING)
    torch.testing.assert_close(scaled.q[:, 3:7] * sign, unit.q[:, 3:7], rtol=ROUNDING, atol=ROUNDING)
    assert torch.linalg.vector_norm(scaled.q[:, 3:7], dim=-1).sub(1.0).abs().max() < ROUNDING
    for readouts in (scaled.readouts, sim.evaluate_readouts(State(longer, start.v))):
        torch.testing.assert_close(readouts["quaternion"] * sign, q[:, 3:7], rtol=ROUNDING, atol=ROUNDING)
    # Stretching the quaternion changes nothing, so no gradient points that way.
    (gradient,) = torch.autograd.grad(scaled.v.square().sum(), longer)
    along = (gradient[:, 3:7] * longer.detach()[:, 3:7]).sum(dim=-1)
    assert along.abs().max() < ROUNDING * (gradient[:, 3:7].norm() * longer.detach()[:, 3:7].norm())
