"""Our hopper, `hopper.xml`, against the recorded numbers of dflex's: one substep, 50 steps, a contact force, gradients.

dflex computed in float32, we compute in float64, and the file's round numbers differ from dflex's by their rounding to
float32. All tolerances follow from that.
"""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from ahac.sim import Simulator, State
from reference import dflex_hopper as dflex
from reference import recorded
from reference.recorded import DT, ROUNDING, SUBSTEP_TOLERANCE, SUBSTEPS, assert_close, row, task_robot

GRADIENT_STEPS = 8
GRADIENT_TOLERANCE = GRADIENT_STEPS * SUBSTEPS * ROUNDING
"""Relative to a vector's largest entry: one rounding per substep, all to the same side."""

INSIDE = 1e-9
"""dflex starts exactly on the upper limits of thigh and leg, where the limit force has a kink, and takes the derivative
of the inner side. This far inside [rad] that is the only one."""

STIFFNESS, VISCOSITY = 2e4, 1e3
"""Of the ground, ke [N/m] and kf [N s/m]."""


def simulator(substeps: int) -> Simulator:
    dt = DT * substeps / SUBSTEPS
    return Simulator(
        task_robot("hopper"), num_worlds=1, dt=dt, substeps=substeps, dtype=torch.float64, integrator="explicit"
    )


@pytest.fixture(scope="module")
def hopper() -> Simulator:
    return simulator(SUBSTEPS)


@pytest.fixture(scope="module")
def by_substep() -> Simulator:
    """The same hopper, one substep per step."""
    return simulator(1)


def action(t: int) -> Tensor:
    return recorded.action(t, count=3)


def reward(state: State, control: Tensor) -> Tensor:
    """As recorded; at its upper bound, where the hopper starts, the derivative of the height term is zero."""
    d = state.q[0, 1] + 0.3
    height = torch.where(d < 0.0, -200.0 * d**2, torch.where(d < 0.3, d, 0.3))
    return state.v[0, 0] + height + 1.0 - (state.q[0, 2] / 0.524) ** 2 - 0.1 * (control**2).sum()


def trajectory(hopper: Simulator, steps: int) -> Iterator[State]:
    """States after 0, 1, ... `steps` steps."""
    state = hopper.rest_state("start")
    yield state
    for t in range(steps):
        state = hopper.step(state, action(t))
        yield state


def test_mass_matrix_force_and_acceleration_at_the_start(by_substep: Simulator) -> None:
    q, v = by_substep.rest_state("start").q, by_substep.rest_state("start").v
    motors = torch.cat([torch.zeros(1, 3, dtype=torch.float64), 200.0 * action(0)], dim=1)
    armature = torch.eye(6, dtype=torch.float64)
    assert_close(by_substep.mass_matrix(q)[0] - armature, dflex.FIRST_SUBSTEP.mass_matrix, SUBSTEP_TOLERANCE)
    assert_close(motors - by_substep.bias_force(q, v), dflex.FIRST_SUBSTEP.tau, SUBSTEP_TOLERANCE)
    rate = by_substep.acceleration(q, v, motors, contact=True)
    assert_close(rate, dflex.FIRST_SUBSTEP.acceleration, SUBSTEP_TOLERANCE)


def test_first_substep(by_substep: Simulator) -> None:
    state = by_substep.step(by_substep.rest_state("start"), action(0))
    assert_close(state.q, dflex.FIRST_SUBSTEP.q, SUBSTEP_TOLERANCE)
    assert_close(state.v, dflex.FIRST_SUBSTEP.v, SUBSTEP_TOLERANCE)


def test_states_over_50_steps(hopper: Simulator) -> None:
    """|error| <= spread + ROUNDING · |largest entry|.

    `spread` is how far dflex itself is off at that step when its start is moved by up to 1e-6, about 16 roundings of a
    number of size one: rounding errors made early in float32 grow as that move does. The second term is the rounding of
    the recorded numbers.
    """
    for k, state in enumerate(trajectory(hopper, max(dflex.STATES))):
        if k in dflex.STATES:
            wanted = dflex.STATES[k]
            q, v = row(wanted.q), row(wanted.v)
            assert (state.q - q).abs().max() <= wanted.q_spread + ROUNDING * q.abs().max(), f"q after {k} steps"
            assert (state.v - v).abs().max() <= wanted.v_spread + ROUNDING * v.abs().max(), f"v after {k} steps"


def test_reward_of_every_step(hopper: Simulator) -> None:
    """Between the recorded states too; tolerance: the spread of v, and that of q by the pitch term's slope at 1 rad."""
    tolerance = max(s.v_spread + 2.0 / 0.524**2 * s.q_spread for s in dflex.STATES.values())
    states = trajectory(hopper, len(dflex.REWARDS) - 1)
    for t, (state, wanted) in enumerate(zip(states, dflex.REWARDS, strict=True)):
        assert reward(state, action(t)).item() == pytest.approx(wanted, rel=0.0, abs=tolerance), f"step {t}"


def test_contact_force(hopper: Simulator, by_substep: Simulator) -> None:
    """While the foot presses on the ground; tolerance: the force that the spread of that step makes."""
    *_, state = trajectory(hopper, 4)
    for _ in range(SUBSTEPS - 1):
        state = by_substep.step(state, action(4))
    force = hopper.contacts(state).force[0].sum(dim=0)
    tolerance = STIFFNESS * dflex.STATES[5].q_spread + VISCOSITY * dflex.STATES[5].v_spread
    assert force.tolist() == pytest.approx(dflex.CONTACT_FORCE, rel=0.0, abs=tolerance)


@pytest.mark.parametrize("start", dflex.GRADIENTS)
def test_gradient_of_eight_rewards(hopper: Simulator, start: int) -> None:
    wanted, snapshot = dflex.GRADIENTS[start], dflex.STATES[start]
    q = (row(snapshot.q) - row((0.0, 0.0, 0.0, INSIDE, INSIDE, 0.0))).requires_grad_()
    v = row(snapshot.v).requires_grad_()
    actions = [action(start + t).requires_grad_() for t in range(GRADIENT_STEPS)]
    state, total = State(q, v), torch.zeros((), dtype=torch.float64)
    for control in actions:
        total = total + reward(state, control)
        state = hopper.step(state, control)
    by_q, by_v, *by_actions = torch.autograd.grad(total, [q, v, *actions])
    assert_close(torch.cat(by_actions), wanted.actions, GRADIENT_TOLERANCE)
    assert_close(by_q, wanted.q, GRADIENT_TOLERANCE)
    assert_close(by_v, wanted.v, GRADIENT_TOLERANCE)
