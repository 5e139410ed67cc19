"""The emitted adjoint kernel and its way through torch, against the same programs evaluated in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ahac.sim import Simulator, State
from gradients.cases import JOINTS, SUBSTEP, Case, observe
from gradients.chains import INPUTS, relative
from gradients.contact_cases import CONTACTS
from support.marks import keep

STEPS = 64
WORLDS = 3
TOLERANCE = 1e-9
"""Relative, over 64 substeps in float64. The kernel takes accelerations from differences of velocities: 1e-12 each."""

COMPILED = (
    "several joints on one body", "muscles", "contact law", "connected branches, implicit",
    "capsule sticking, implicit", "ball springs", "fluid", "ellipsoid sliding", "contact law, implicit",
    "servos within bounds, implicit", "ball beyond its limit, implicit", "dry friction, implicit",
)  # fmt: skip
"""Together they use every operation there is, both kinds of laws and both integrators."""


CASES = {case.name: case for explicit in (*JOINTS, *CONTACTS) for case in (explicit, explicit.implicit)}


@pytest.mark.parametrize("case", keep(5, [CASES[name] for name in COMPILED]), ids=lambda case: case.name)
def test_the_compiled_gradient_is_that_of_the_programs(case: Case, device: torch.device) -> None:
    rng = np.random.default_rng(13)
    assert case.laws.contact is not None
    sim = Simulator(
        case.model,
        num_worlds=WORLDS,
        dt=STEPS * SUBSTEP,
        substeps=STEPS,
        device=device,
        dtype=torch.float64,
        readouts={"observed": observe},
        forces=case.laws.extra,
        contact_law=case.laws.contact,
        integrator=case.integrator,
    )
    # Worlds that differ by less than what would change the situation.
    x = {k: value + 1e-4 * rng.standard_normal((WORLDS, len(value))) for k, value in case.state().items()}
    run = case.chain.run(x, SUBSTEP, STEPS)
    seeds = {k: rng.standard_normal(value.shape) for k, value in run.end.items()}
    wanted = case.chain.pull(x, run, seeds)
    inputs = {k: torch.from_numpy(value).to(sim.device).requires_grad_() for k, value in x.items()}
    act = case.chain.act.get("act")
    activations = None if act is None else torch.from_numpy(act).to(sim.device).repeat(WORLDS, 1)
    end = sim.step(State(inputs["q"], inputs["v"], act=activations), inputs["u"], inputs["f"])
    outputs = {"q": end.q, "v": end.v, "read_0": end.readouts["observed"]}
    for name, value in outputs.items():
        assert relative(value.detach().cpu().numpy(), run.end[name]) < TOLERANCE
    weights = [torch.from_numpy(seeds[name]).to(sim.device) for name in outputs]
    found = torch.autograd.grad(list(outputs.values()), [inputs[name] for name in INPUTS], weights)
    for name, gradient in zip(INPUTS, found, strict=True):
        assert relative(gradient.cpu().numpy(), wanted[name]) < TOLERANCE, name
