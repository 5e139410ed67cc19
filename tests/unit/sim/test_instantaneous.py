"""Contacts, wrenches and accelerations are those of the forces now, whichever integrator steps the worlds."""

from __future__ import annotations

import numpy as np
import pytest

from ahac.sim import ContactMaterial, Integrator, JointLimit, compliant, load_model, penalty
from ahac.sim.compiler.program import evaluate
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs
from support.integrators import INTEGRATORS, laws_of
from support.mujoco_oracle import compiled, random_states
from support.numeric_physics import Numeric
from support.robots import ROVER, mjcf

MATERIAL = ContactMaterial(stiffness=3e3, damping=2e3, viscosity=90.0, friction=0.7)
LIMIT = JointLimit(stiffness=500.0, damping=3.0)
WORLDS = 4
ROUNDING = 1e-9
"""Relative, for the same quantity by another route."""


def low_states() -> tuple[np.ndarray, np.ndarray]:
    """Of the rover, with something in the ground and its arm out of its range."""
    q, v = random_states(compiled(ROVER), WORLDS, seed=4)
    q[:, 2], q[:, 7] = 0.15, [1.3, -1.2, 0.2, 1.1]
    return q, v


@pytest.mark.parametrize("law", [penalty, compliant])
def test_all_of_them_are_the_same_under_both_integrators(law: object) -> None:
    q, v = low_states()
    model = load_model(ROVER, contact=MATERIAL, limit=LIMIT)
    x = {"q": q, "v": v, "u": np.full((WORLDS, 1), 0.5), "force": np.ones_like(v)}
    found = []
    for implicit in (False, True):
        programs = Programs(model, ForceLaws(contact=law, implicit=implicit), {})  # pyright: ignore[reportArgumentType]
        traced = [
            programs.contacts(),
            programs.contact_accelerations(),
            programs.contact_wrenches(),
            programs.acceleration(contact_enabled=True),
            programs.acceleration(contact_enabled=False),
        ]
        results = [evaluate(program, {k: x[k] for k in program.inputs}) for program in traced]
        found.append({(i, k): value for i, result in enumerate(results) for k, value in result.items()})
    assert (found[0][0, "depth"] > 0.0).any()
    for key, explicit in found[0].items():
        np.testing.assert_allclose(found[1][key], explicit, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_acceleration_is_that_of_the_forces_now(integrator: Integrator) -> None:
    """M v̇ = force − bias − damping + limits + Jᵀ contact forces, each from another function."""
    ours = Numeric(ROVER, laws_of(integrator), contact=MATERIAL, limit=LIMIT)
    q, v = low_states()
    push = np.random.default_rng(0).normal(size=v.shape)
    found = ours.acceleration(q, v, push, contact=True)
    seen = ours.contacts(q, v)
    assert (seen["depth"] > 0.0).any()
    wanted = push - ours.bias_force(q, v)
    wanted[:, 6] -= 0.1 * v[:, 6]
    beyond = np.clip(q[:, 7], -1.0, 1.0) - q[:, 7]
    wanted[:, 6] += np.where(beyond, 500.0 * beyond - 3.0 * v[:, 6], 0.0)
    for world in range(WORLDS):
        for point in range(3):
            # A point's velocity is linear in v: its Jacobian, by unit velocities.
            rows = ours.contacts(np.tile(q[world], (7, 1)), np.eye(7))["velocity"][:, point]
            wanted[world] += rows @ seen["force"][world, point]
    np.testing.assert_allclose(
        np.einsum("nij,nj->ni", ours.mass_matrix(q), found), wanted, rtol=ROUNDING, atol=ROUNDING * 1e3
    )


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_step_tends_to_the_acceleration_as_it_shortens(integrator: Integrator) -> None:
    """(v' − v) / h differs by a term of first order in h alone."""
    ours = Numeric(ROVER, laws_of(integrator), contact=MATERIAL, limit=LIMIT)
    q, v = low_states()
    now = ours.acceleration(q, v, np.zeros_like(v), contact=True)
    errors = []
    for h in (1e-7, 1e-8):
        after = ours.step(q, v, h)[1]
        errors.append(np.linalg.norm((after - v) / h - now) / np.linalg.norm(now))
    assert errors[0] < 1e-3
    assert errors[1] < 1e-6 if integrator == "explicit" else 5.0 < errors[0] / errors[1] < 20.0


SLEDGE = mjcf(
    '<geom type="plane" size="1 1 1" conaffinity="1"/>'
    '<body pos="0 0 0.1"><freejoint/><geom type="box" size="0.2 0.1 0.1" mass="4"/></body>'
)


def test_default_contact_carries_the_robot_a_millimeter_deep() -> None:
    """The constants that implicit integration chooses: weight on four corners, 1 mm deep, at rest."""
    ours = Numeric(SLEDGE, laws_of("implicit"))
    q, v = np.array(ours.model.rest_q), np.zeros(6)
    q[2] -= 1e-3
    seen = ours.contacts(q, v)["force"]
    np.testing.assert_allclose(seen[seen[:, 2] > 0.0], [[0.0, 0.0, 9.81]] * 4, rtol=1e-6, atol=1e-9)
    assert np.abs(ours.acceleration(q, v, v, contact=True)).max() < 1e-6
    _, after = ours.step(q, v, 1 / 240)
    assert np.abs(after).max() < 1e-8
