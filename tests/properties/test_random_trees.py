# pyright: reportAttributeAccessIssue=false
"""What holds for every tree of joints: agreement with MuJoCo, invariances of the physics, exact derivatives."""

from __future__ import annotations

import mujoco
import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ahac.sim import Integrator, Model
from ahac.sim.compiler.program import adjoint, evaluate
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs
from gradients import implicit_form
from properties.random_trees import Robot, robots
from support.integrators import IMPLICIT, INTEGRATORS, laws_of

ROUNDING = 1e-9
"""Relative, for the same quantity by another route; rounding through a solve leaves 1e-12."""

DIGITS = 1e-6
"""Force [N] by which robots differ whose files hold nine digits of each number."""

IDENTITY = 1e-10
"""Relative, for ⟨J a, w⟩ = ⟨a, Jᵀ w⟩."""

DIFFERENCES = 1e-6
"""Relative, for central differences at the best of `EPS`."""

EPS = (1e-3, 1e-4, 1e-5, 1e-6)
STEP = 0.02
"""Seconds; long, so that the dynamics shows in the derivatives of a step."""

Groups = dict[str, np.ndarray]

trees = settings(derandomize=True, deadline=None, max_examples=25, database=None, phases=[Phase.generate])
"""The same examples in every run. One that fails is shown as it is: making it smaller would take minutes of tracing."""


def acceleration(model: Model, x: Groups) -> np.ndarray:
    return evaluate(Programs(model, ForceLaws(), {}).acceleration(contact_enabled=False), x)["qacc"]


def mass_matrix(model: Model, q: np.ndarray) -> np.ndarray:
    return evaluate(Programs(model, ForceLaws(), {}).mass_matrix(), {"q": q})["matrix"].reshape(model.nv, model.nv)


def alike(model: Model, q: np.ndarray, a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two accelerations need the same forces: all that rounding through an ill-conditioned solve leaves."""
    matrix = mass_matrix(model, q)
    return bool(np.linalg.norm(matrix @ (a - b)) <= ROUNDING * (1.0 + np.linalg.norm(matrix @ b)))


@trees
@given(robots())
def test_mass_matrix_and_acceleration_are_mujocos(robot: Robot) -> None:
    model, raw = robot.model(), robot.compiled()
    data, x = mujoco.MjData(raw), robot.state(model)
    data.qpos = x["q"]
    data.qvel = x["v"]
    data.qfrc_applied = x["force"]
    mujoco.mj_forward(raw, data)
    wanted = np.eye(raw.nv)
    for column in wanted:
        mujoco.mj_mulM(raw, data, column, column.copy())
    matrix = mass_matrix(model, x["q"])
    assert np.array_equal(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > 0.0
    np.testing.assert_allclose(matrix, wanted, rtol=0.0, atol=ROUNDING * np.abs(wanted).max())
    assert alike(model, x["q"], acceleration(model, x), data.qacc)


@trees
@given(robots(), st.floats(0.01, 100.0))
def test_scaling_inertia_and_force_together_changes_nothing(robot: Robot, scale: float) -> None:
    model, scaled = robot.model(), robot.model(scale)
    x = robot.state(model)
    heavier = acceleration(scaled, {**x, "force": scale * x["force"]})
    assert np.linalg.norm(mass_matrix(model, x["q"]) @ (heavier - acceleration(model, x))) < DIGITS


@trees
@given(robots(free=True), st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_where_a_free_robot_is_changes_nothing(robot: Robot, east: float, north: float) -> None:
    model = robot.model()
    x = robot.state(model)
    moved = {**x, "q": x["q"] + np.array([east, north] + [0.0] * (model.nq - 2))}
    assert np.array_equal(acceleration(model, moved), acceleration(model, x))


@trees
@given(robots(free=True), st.floats(0.1, 10.0))
def test_a_quaternion_and_its_multiples_are_one_rotation(robot: Robot, length: float) -> None:
    model = robot.model()
    x = robot.state(model)
    for factor in (-1.0, length):
        turned = x["q"].copy()
        for joint in model.joints:
            if len(joint.dofs) == 3:
                turned[joint.q : joint.q + 4] *= factor
        assert alike(model, x["q"], acceleration(model, {**x, "q": turned}), acceleration(model, x))


@trees
@given(robots())
def test_an_implicit_substep_solves_the_dense_system(robot: Robot) -> None:
    """With springs, dry friction, limits and contact on every body."""
    programs = Programs(robot.model(stiff=True), IMPLICIT, {})
    x = substep_inputs(robot, programs.model)
    found = (evaluate(programs.step().substep, x)["v"] - x["v"]) / STEP
    total = implicit_form.system(programs.model, x, STEP)
    # Some contacts are deep: forces of 1e6 N nearly cancel.
    scale = np.abs(total.matrix) @ np.abs(found)
    assert np.all(np.abs(total.matrix @ found - total.force) <= ROUNDING * (1.0 + scale.max()))


def substep_inputs(robot: Robot, model: Model) -> Groups:
    start = robot.state(model)
    return {"q": start["q"], "v": start["v"], "u": np.zeros(0), "f": start["force"], "h": np.array([STEP])}


@trees
@given(robots(), st.sampled_from(INTEGRATORS))
def test_a_substep_is_differentiated_exactly(robot: Robot, integrator: Integrator) -> None:
    """J a by transposing the adjoint once more: against Jᵀ w, and against central differences."""
    laws = laws_of(integrator)
    model = robot.model(stiff=laws.implicit)
    x, rng = substep_inputs(robot, model), np.random.default_rng(robot.seed + 1)
    program = Programs(model, laws, {}).step().substep
    back = adjoint(program, ["q", "v", "f"])
    forth = adjoint(back, ["q_bar", "v_bar"])
    a = {name: rng.standard_normal(x[name].shape) for name in ("q", "v", "f")}
    w = {name: rng.standard_normal(x[name].shape) for name in ("q", "v")}
    bars = {f"{name}_bar": value for name, value in w.items()}
    pulled = flat(evaluate(back, {**x, **bars}))
    pushed = flat(evaluate(forth, {**x, **bars, **{f"{name}_bar_bar": value for name, value in a.items()}}))
    assert abs(pushed @ flat(w) - pulled @ flat(a)) <= IDENTITY * np.linalg.norm(pulled) * np.linalg.norm(flat(a))
    errors = []
    for eps in EPS:
        ends = [flat(evaluate(program, {**x, **{name: x[name] + e * d for name, d in a.items()}})) for e in (eps, -eps)]
        errors.append(np.linalg.norm((ends[0] - ends[1]) / (2.0 * eps) - pushed) / np.linalg.norm(pushed))
    assert min(errors) < DIFFERENCES


def flat(groups: Groups) -> np.ndarray:
    return np.concatenate(list(groups.values()))
