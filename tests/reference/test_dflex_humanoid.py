"""Our humanoid, `humanoid.xml`, against the recorded numbers of dflex's: bodies, one substep, 50 steps.

Two things differ by choice. dflex's inertia tensors are wrong, ours are right; and dflex moves the root by its twist
about the world's origin. So the numbers are compared twice: with dflex's tensors and its way to move the root put in
place of ours, where nothing but dflex's rounding to float32 may be left; and as they are, where the difference must be
as small as stated. The file's round numbers differ from dflex's by their rounding to float32.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from ahac.sim import Model, Simulator, State
from reference import dflex_humanoid as body_of
from reference import dflex_humanoid_motion as dflex
from reference import recorded
from reference.free_root import as_in_dflex, step_as_dflex, velocity_map
from reference.recorded import DT, ROUNDING, SUBSTEP_TOLERANCE, assert_close, row, task_robot

FREE = 6
"""Velocity coordinates of the root."""

ORIGIN_TOLERANCE = 6 * SUBSTEP_TOLERANCE
"""For the mass matrix: dflex takes moments about the world's origin, where the humanoid's moment of inertia is 5.6
times that about its own center of mass (41.9 and 7.5 kg m²). Most of it cancels, roundings do not."""

SPREADS = 6
"""States may differ by so many spreads. A spread is what one random move of the start by 1e-6 makes of it. float32
makes a new error in each of the 48 substeps of a step; in contact, 1e-7 m of rounding in a depth are 2e-3 N. Our own
simulator in float32 departs from itself in float64 by up to five spreads."""


@pytest.fixture(scope="module")
def humanoid() -> Model:
    return task_robot("humanoid")


@pytest.fixture(scope="module")
def ours(humanoid: Model) -> Simulator:
    return by_substep(humanoid)


@pytest.fixture(scope="module")
def theirs(humanoid: Model) -> Simulator:
    """Our humanoid with dflex's masses and inertia tensors."""
    links = []
    for link in humanoid.links:
        body = body_of.BODIES[link.name]
        xx, yy, zz, xy, xz, yz = body.inertia
        moments, axes = np.linalg.eigh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        tensor = {"moments": tuple(moments.tolist()), "principal": tuple(map(tuple, axes.tolist()))}
        links.append(replace(link, mass=body.mass, center_of_mass=body.center, **tensor))
    return by_substep(replace(humanoid, links=tuple(links)))


def by_substep(model: Model) -> Simulator:
    """One substep per step."""
    return Simulator(
        model, num_worlds=1, dt=DT / dflex.SUBSTEPS, substeps=1, dtype=torch.float64, integrator="explicit"
    )


def action(t: int) -> Tensor:
    return recorded.action(t, count=21)


def recorded_states(simulator: Simulator, *, dflex_root: bool) -> Iterator[tuple[int, State]]:
    """(steps taken, state) wherever dflex's state is known."""
    state = simulator.rest_state("start")
    yield 0, state
    for t in range(max(dflex.STATES)):
        for _ in range(dflex.SUBSTEPS):
            state = step_as_dflex(simulator, state, action(t)) if dflex_root else simulator.step(state, action(t))
        if t + 1 in dflex.STATES:
            yield t + 1, state


def departure(state: State, steps: int) -> tuple[float, float]:
    """Largest difference of q and of v from dflex's."""
    q, v = as_in_dflex(state)
    wanted = dflex.STATES[steps]
    return (q - row(wanted.q)[0]).abs().max().item(), (v - row(wanted.v)[0]).abs().max().item()


def in_order(balls: Sequence[tuple[float, ...]]) -> np.ndarray:
    """Rows in one order: dflex starts a capsule at its other end."""
    return np.array(sorted(balls, key=lambda ball: [round(number, 6) for number in ball]))


def test_loading_it_reports_nothing(caplog: pytest.LogCaptureFixture) -> None:
    task_robot("humanoid")
    assert not caplog.records


def test_masses_centers_and_contact_points(humanoid: Model) -> None:
    """Tolerance: eight roundings of float32; of contact points 1e-7 m, which dflex's turning of capsules costs."""
    assert sum(link.mass for link in humanoid.links) == pytest.approx(40.84, abs=0.005)
    assert [link.name for link in humanoid.links] == list(body_of.BODIES)
    for i, link in enumerate(humanoid.links):
        body = body_of.BODIES[link.name]
        assert link.mass == pytest.approx(body.mass, rel=8 * ROUNDING)
        assert link.center_of_mass == pytest.approx(body.center, rel=8 * ROUNDING, abs=ROUNDING)
        balls = [
            (*candidate.center, candidate.radius) for candidate in humanoid.contact_candidates if candidate.link == i
        ]
        assert in_order(balls) == pytest.approx(in_order(body.balls), rel=0.0, abs=1e-7)
    assert len(humanoid.contact_candidates) == 35


def test_ranges_and_strengths(humanoid: Model) -> None:
    hinges = [joint for joint in humanoid.joints if joint.range]
    bounds = [joint.range for joint in hinges]
    assert np.array(bounds) == pytest.approx(np.array([body_of.LOWER, body_of.UPPER]).T, rel=4 * ROUNDING)
    assert [actuator.name for actuator in humanoid.actuators] == [joint.name for joint in hinges]
    assert [actuator.dofs for actuator in humanoid.actuators] == [
        ((FREE + i, strength),) for i, strength in enumerate(body_of.STRENGTH)
    ]


def test_dflex_keeps_one_moment_of_a_capsule_across_x(humanoid: Model) -> None:
    """What is wrong with its tensors: turned entry by entry, two of three moments vanish; the third is right."""
    for name, axis in {"lower_waist": 2, "pelvis": 2, "right_shin": 1, "left_shin": 1}.items():
        link = next(link for link in humanoid.links if link.name == name)
        kept = body_of.BODIES[name].inertia[:3]
        assert kept[axis] == pytest.approx(max(link.moments), rel=8 * ROUNDING)
        assert sum(kept) - kept[axis] < 1e-30


def test_mass_matrix_and_force_at_the_start(theirs: Simulator) -> None:
    q, v = theirs.rest_state("start").q, theirs.rest_state("start").v
    to_ours = torch.linalg.inv(velocity_map(q))
    matrix = theirs.mass_matrix(q)[0] - torch.diag(torch.tensor(theirs.model.armature, dtype=torch.float64))
    motors = torch.cat([torch.zeros(1, FREE, dtype=torch.float64), row(body_of.STRENGTH) * action(0)], dim=1)
    assert_close(to_ours.T @ matrix @ to_ours, dflex.FIRST_SUBSTEP.mass_matrix, ORIGIN_TOLERANCE)
    assert_close((motors - theirs.bias_force(q, v)) @ to_ours, dflex.FIRST_SUBSTEP.tau, SUBSTEP_TOLERANCE)


def test_first_substep(theirs: Simulator) -> None:
    """Relative to the largest entry, v may differ by ROUNDING times the condition of dflex's mass matrix.

    The condition is that of the matrix scaled to a diagonal of ones, which is what a Cholesky factor feels: 1.8e3.
    """
    matrix = torch.tensor(dflex.FIRST_SUBSTEP.mass_matrix, dtype=torch.float64)
    matrix = matrix + torch.diag(torch.tensor(theirs.model.armature, dtype=torch.float64))
    scale = matrix.diagonal().rsqrt()
    tolerance = ROUNDING * torch.linalg.cond(scale[:, None] * matrix * scale).item()
    q, v = as_in_dflex(step_as_dflex(theirs, theirs.rest_state("start"), action(0)))
    assert_close(v, dflex.FIRST_SUBSTEP.v, tolerance)
    assert_close(q, dflex.FIRST_SUBSTEP.q, SUBSTEP_TOLERANCE)


def test_states_over_50_steps(theirs: Simulator) -> None:
    """|error| <= SPREADS · the largest spread so far + ROUNDING · |largest entry|; feet touch from step 7 on."""
    q_spread = v_spread = 0.0
    for k, state in recorded_states(theirs, dflex_root=True):
        wanted = dflex.STATES[k]
        q_spread = max(q_spread, wanted.q_spread)
        v_spread = max(v_spread, wanted.v_spread)
        q_error, v_error = departure(state, k)
        assert q_error <= SPREADS * q_spread + ROUNDING * max(map(abs, wanted.q)), f"q after {k} steps"
        assert v_error <= SPREADS * v_spread + ROUNDING * max(map(abs, wanted.v)), f"v after {k} steps"


def test_what_our_way_to_move_the_root_changes(theirs: Simulator) -> None:
    """With dflex's tensors: positions and angles by 4e-4 m and rad, velocities by 4e-3, after 50 steps."""
    *_, (steps, state) = recorded_states(theirs, dflex_root=False)
    q_error, v_error = departure(state, steps)
    assert 1e-4 < q_error < 5e-4
    assert 1e-3 < v_error < 5e-3


@pytest.mark.extended
def test_what_the_right_inertia_changes_in_the_first_substep(ours: Simulator) -> None:
    """Most where dflex leaves no inertia: the right leg, turned about its length. Relative to the largest velocity."""
    _, v = as_in_dflex(ours.step(ours.rest_state("start"), action(0)))
    wanted = row(dflex.FIRST_SUBSTEP.v)[0]
    names = [f"root:{i}" for i in range(FREE)] + [actuator.name for actuator in ours.model.actuators]
    change = dict(zip(names, ((v - wanted).abs() / wanted.abs().max()).tolist(), strict=True))
    assert 0.3 < change.pop("right_hip_z") < 0.4
    assert max(change.values()) < 0.2


def test_what_differs_over_50_steps(ours: Simulator) -> None:
    """All differences together; dflex's angles reach 1.1 rad meanwhile and its rates 6.7 rad/s."""
    for k, state in recorded_states(ours, dflex_root=False):
        q_error, v_error = departure(state, k)
        assert q_error < 0.015, f"q after {k} steps"
        assert v_error < 0.15, f"v after {k} steps"
