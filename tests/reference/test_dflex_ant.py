"""Our ant, `ant.xml`, against the recorded numbers of dflex's: mass matrix, one substep, 50 steps, a contact force.

Two things differ by choice, and both are taken out before numbers are compared:

- dflex rotates inertia tensors element by element, which is wrong for tilted capsules. `dflex_model` is our ant with
  dflex's tensors.
- dflex integrates the torso's twist about the world's origin, we integrate the velocity of its center. `step_as_dflex`
  gives a substep of ours dflex's rule.

What is left is dflex's rounding to float32. The last three tests are about the choices: what they are, and
what each does by itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from ahac.sim import Model, Simulator, State
from reference import dflex_ant as dflex
from reference import recorded
from reference.free_root import as_in_dflex, step_as_dflex, velocity_map
from reference.recorded import DT, ROUNDING, SUBSTEP_TOLERANCE, SUBSTEPS, Snapshot, assert_close, row, task_robot

H = DT / SUBSTEPS

ORIGIN_TOLERANCE = 5 * SUBSTEP_TOLERANCE
"""For mass matrix and accelerations: dflex takes moments about the world's origin, where the ant's moment of inertia is
5 times that about its own center of mass (106 and 22 kg m²). Most of it cancels, roundings do not."""

MOVES = 3.0
"""A recorded spread is that of one random move of the start; of 64 such moves in our simulator, some spread 13 times as
much."""

STIFFNESS = 4e4
DAMPING = 1e4
VISCOSITY = 3e3
"""Of the ground, ke [N/m], kd [N s/m²] and kf [N s/m]."""

MASSES = [dflex.MASSES[0], *(4 * dflex.MASSES[1:])]


@pytest.fixture(scope="module")
def ant() -> Model:
    return task_robot("ant")


@pytest.fixture(scope="module")
def dflex_model(ant: Model) -> Model:
    """Our ant with dflex's masses and inertia tensors."""
    tensors = [np.array(dflex.TORSO_INERTIA), *(4 * [np.diag(dflex.LEG_MOMENTS), np.diag(dflex.FOOT_MOMENTS)])]
    links = []
    for link, mass, tensor in zip(ant.links, MASSES, tensors, strict=True):
        moments, axes = np.linalg.eigh(tensor)
        principal = tuple(tuple(line) for line in axes.tolist())
        links.append(replace(link, mass=mass, moments=tuple(moments.tolist()), principal=principal))
    return replace(ant, links=tuple(links))


@pytest.fixture(scope="module")
def by_substep(dflex_model: Model) -> Simulator:
    """One substep per step, with dflex's inertia tensors."""
    return Simulator(dflex_model, num_worlds=1, dt=H, substeps=1, dtype=torch.float64, integrator="explicit")


def action(t: int) -> Tensor:
    return recorded.action(t, count=8)


def trajectory(simulator: Simulator, steps: int, move: Callable[..., State]) -> Iterator[State]:
    """States before the first substep and after each one."""
    state = simulator.rest_state("start")
    yield state
    for k in range(steps * SUBSTEPS):
        state = move(simulator, state, action(k // SUBSTEPS))
        yield state


def at_recorded_steps(states: Iterator[State]) -> Iterator[tuple[State, Snapshot]]:
    for k, state in enumerate(states):
        if k % SUBSTEPS == 0 and k // SUBSTEPS in dflex.STATES:
            yield state, dflex.STATES[k // SUBSTEPS]


def assert_within(ours: Tensor, wanted: tuple[float, ...], tolerance: float) -> None:
    error = (ours - row(wanted)[0]).abs().max().item()
    assert error <= tolerance, f"off by {error:.1e}, not {tolerance:.1e}"


def test_masses(ant: Model) -> None:
    assert [link.mass for link in ant.links] == pytest.approx(MASSES, rel=4 * ROUNDING)
    assert sum(link.mass for link in ant.links) == pytest.approx(182.18, abs=0.005)


def test_mass_matrix_force_and_acceleration_at_the_start(by_substep: Simulator) -> None:
    rest, start = by_substep.rest_state("start"), dflex.FIRST_SUBSTEP
    to_dflex = velocity_map(rest.q)
    to_ours = torch.linalg.inv(to_dflex)
    armature = torch.diag(torch.tensor(by_substep.model.armature, dtype=torch.float64))
    matrix = by_substep.mass_matrix(rest.q)[0] - armature
    assert_close(to_ours.T @ matrix @ to_ours, start.mass_matrix, ORIGIN_TOLERANCE)
    motors = torch.cat([torch.zeros(1, 6, dtype=torch.float64), 200.0 * action(0)], dim=1)
    assert_close((motors - by_substep.bias_force(rest.q, rest.v)) @ to_ours, start.tau, SUBSTEP_TOLERANCE)
    rate = by_substep.acceleration(rest.q, rest.v, motors, contact=True)
    assert_close(to_dflex @ rate[0], start.acceleration, ORIGIN_TOLERANCE)


def test_first_substep(by_substep: Simulator) -> None:
    q, v = as_in_dflex(step_as_dflex(by_substep, by_substep.rest_state("start"), action(0)))
    assert_close(q, dflex.FIRST_SUBSTEP.q, SUBSTEP_TOLERANCE)
    assert_close(v, dflex.FIRST_SUBSTEP.v, ORIGIN_TOLERANCE)


def test_states_over_50_steps(by_substep: Simulator) -> None:
    """|error| <= MOVES · spread + 16 ROUNDING · |largest entry|.

    `spread` is how far dflex itself is off at that step when its start is moved by up to 1e-6, about 16 roundings of a
    number of size one: rounding errors made early in float32 grow as such a move does. The second term is what one
    substep may be off by, as above.
    """
    for state, wanted in at_recorded_steps(trajectory(by_substep, max(dflex.STATES), step_as_dflex)):
        q, v = as_in_dflex(state)
        assert_within(q, wanted.q, MOVES * wanted.q_spread + SUBSTEP_TOLERANCE * max(map(abs, wanted.q)))
        assert_within(v, wanted.v, MOVES * wanted.v_spread + SUBSTEP_TOLERANCE * max(map(abs, wanted.v)))


def test_contact_force(by_substep: Simulator) -> None:
    """While feet press on the ground; tolerance: the force that the spread of that step makes at one foot."""
    *_, state, _ = trajectory(by_substep, 10, step_as_dflex)
    contacts, spread = by_substep.contacts(state), dflex.STATES[10]
    viscosity = VISCOSITY + DAMPING * contacts.depth.max().item()
    tolerance = MOVES * (STIFFNESS * spread.q_spread + viscosity * spread.v_spread)
    assert contacts.force[0].sum(dim=0).tolist() == pytest.approx(dflex.CONTACT_FORCE, rel=0.0, abs=tolerance)


def test_our_integration_of_the_torso_differs_by_a_substep_of_its_turning(by_substep: Simulator) -> None:
    """Velocities by h |ω| |v|, as long as contact has not made the difference grow: in the first ten steps."""
    for state, wanted in at_recorded_steps(trajectory(by_substep, 10, Simulator.step)):
        turning = H * state.v[0, 3:6].norm().item() * state.v[0, :3].norm().item()
        assert_within(as_in_dflex(state)[1], wanted.v, turning + MOVES * wanted.v_spread)


def test_dflex_rotates_inertia_element_by_element(ant: Model) -> None:
    """R ∘ I ∘ Rᵀ in place of R I Rᵀ: with R of 45° about z, half of the moments along x and y are lost."""
    for link, wanted in zip(ant.links[1:], 4 * [dflex.LEG_MOMENTS, dflex.FOOT_MOMENTS], strict=True):
        along, across, _ = link.moments
        assert (along / 2, across / 2, across) == pytest.approx(wanted, rel=4 * ROUNDING)


def test_what_the_right_inertia_changes(ant: Model) -> None:
    """Of the first velocities, a quarter to a third: a foot is a third harder to turn about its ankle."""
    simulator = Simulator(ant, num_worlds=1, dt=H, substeps=1, dtype=torch.float64, integrator="explicit")
    state = simulator.step(simulator.rest_state("start"), action(0))
    wanted = row(dflex.FIRST_SUBSTEP.v)[0]
    difference = (as_in_dflex(state)[1] - wanted).abs().max() / wanted.abs().max()
    assert 1 / 4 < difference < 1 / 3
    ankle = simulator.mass_matrix(state.q)[0, 7, 7] - simulator.model.armature[7]
    assert ankle.item() / dflex.FIRST_SUBSTEP.mass_matrix[7][7] == pytest.approx(4 / 3, abs=0.03)
