"""Derivatives of a substep with respect to every kind of parameter, against central differences."""

import numpy as np
import pytest

from ahac.sim import compliant, load_model
from ahac.sim.compiler.program import evaluate
from ahac.sim.model.parameters.kinds import KINDS
from ahac.sim.physics import contact_loops, implicit_contact
from ahac.sim.physics.substep import ForceLaws
from gradients.models import LIMITED
from support.parametrized import PLAIN, STANDING, WATER, Parametrized

EPS = 1e-5
TOLERANCE = 1e-6
"""Relative, or absolute for derivatives below one; truncation (eps²) and rounding (1e-16 / eps) leave 1e-8 or so."""
H = 2e-3
STATES = 5
TOUCHING = 0.07
"""Height at which all shapes touch the plane [m]."""

ROBOT = {
    **dict.fromkeys(("opt_density", "opt_viscosity", "opt_wind"), WATER),
    **dict.fromkeys(("geom_pos", "geom_size", "geom_friction", "contact_stiffness", "contact_damping"), STANDING),
    "jnt_range": LIMITED,
}
SELECTED = {"qpos_spring": "qpos_spring:hip", "body_pos": "body_pos:[!a]*"}
"""Others have no effect: joints without springs, and the arm on a fixed base."""
WITHOUT_EFFECT = {"actuator_delay"}
"""The simulator delays controls between steps."""
TESTED = [name for name in KINDS if name not in WITHOUT_EFFECT]
LAWS = {"explicit": ForceLaws(), "implicit": ForceLaws(compliant, implicit=True)}


def inputs(physics: Parametrized, spread: float, seed: int = 0) -> dict[str, np.ndarray]:
    """Random states around the reference pose, controls and forces."""
    model, rng = physics.model, np.random.default_rng(seed)

    def normal(size: int) -> np.ndarray:
        return rng.normal(size=(STATES, size))

    start = np.array(model.rest_q)
    if model.contact_candidates:
        start[2] = TOUCHING
    return {
        "q": start + spread * normal(model.nq),
        "v": normal(model.nv),
        "u": normal(model.nu),
        "f": normal(model.nv),
        "act": rng.uniform(0.2, 0.8, size=(STATES, model.na)),
        "h": np.full((STATES, 1), H),
        "p": np.tile(physics.defaults, (STATES, 1)),
    }


def assert_derivatives_match(physics: Parametrized, values: dict[str, np.ndarray], group: str = "p") -> np.ndarray:
    """Compare the adjoint of one input group with central differences; return the derivative [STATES, size]."""
    rng = np.random.default_rng(1)
    bars = {f"{name}_bar": rng.normal(size=(STATES, len(out))) for name, out in physics.substep.outputs.items()}
    found = evaluate(physics.adjoint, {**values, **bars})[f"{group}_bar"]
    steps = EPS * np.eye(values[group].shape[1])[:, None, :]

    def weighted(sign: float) -> np.ndarray:
        shape = (len(steps), STATES)
        moved = {name: np.broadcast_to(x, (*shape, x.shape[-1])) for name, x in values.items()}
        ends = evaluate(physics.substep, {**moved, group: values[group] + sign * steps})
        return np.sum([(ends[name] * bars[f"{name}_bar"]).sum(-1) for name in ends], axis=0)

    expected = ((weighted(1.0) - weighted(-1.0)) / (2.0 * EPS)).T
    error = np.abs(found - expected) / np.maximum(1.0, np.abs(expected))
    worst = np.unravel_index(np.argmax(error), error.shape)
    label = physics.parameters.labels[worst[1]] if group == "p" else f"{group}[{worst[1]}]"
    assert error[worst] < TOLERANCE, f"{label}: {found[worst]} instead of {expected[worst]}"
    return found


@pytest.mark.parametrize("integrator", LAWS)
@pytest.mark.parametrize("kind", TESTED)
def test_derivative_by_each_kind(kind: str, integrator: str) -> None:
    model = load_model(ROBOT.get(kind, PLAIN))
    whole = "" in KINDS[kind].elements(model)
    pattern = SELECTED.get(kind, kind if whole else f"{kind}:*")
    physics = Parametrized(model, model.parameters(pattern), LAWS[integrator])
    spread = {"jnt_range": 1.0}.get(kind, 0.02 if ROBOT.get(kind) == STANDING else 0.3)
    found = assert_derivatives_match(physics, inputs(physics, spread))
    idle = [physics.parameters.labels[i] for i in np.flatnonzero(~found.any(0))]
    assert not idle, f"without effect: {idle}"


@pytest.mark.parametrize("integrator", LAWS)
def test_derivative_by_everything_at_once(integrator: str) -> None:
    model = load_model(PLAIN)
    patterns = ["gravity", *(f"{kind}:*" for kind in TESTED if kind not in ROBOT and kind != "gravity")]
    physics = Parametrized(model, model.parameters(*patterns), LAWS[integrator])
    values = inputs(physics, 0.3)
    for group in ("q", "v", "u", "act", "p"):
        assert_derivatives_match(physics, values, group)


@pytest.mark.parametrize("integrator", LAWS)
def test_loops_over_points_with_parameters(integrator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(STANDING)
    parameters = model.parameters("geom_friction:*", "contact_stiffness:b*", "geom_pos:rod", "body_mass:*")
    unrolled = Parametrized(model, parameters, LAWS[integrator])
    values = inputs(unrolled, 0.02)
    expected = evaluate(unrolled.substep, values)
    monkeypatch.setattr(contact_loops, "EXPLICIT_FROM", 1)
    monkeypatch.setattr(implicit_contact, "LOOPED_FROM", 1)
    looped = Parametrized(model, parameters, LAWS[integrator])
    assert looped.substep.graph.calls
    assert not unrolled.substep.graph.calls
    for name, numbers in evaluate(looped.substep, values).items():
        np.testing.assert_allclose(numbers, expected[name], rtol=0, atol=1e-11 * np.abs(numbers).max(initial=1.0))
    for group in ("q", "v", "p"):
        assert_derivatives_match(looped, values, group)
