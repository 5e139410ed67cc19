# pyright: reportAttributeAccessIssue=false
"""Jacobians of a step: central differences in the coordinates of velocities, and MuJoCo's own finite differences."""

from collections.abc import Callable
from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.sim import Integrator, Simulator, State, StepJacobian, load_model
from support.mujoco_oracle import random_states
from support.robots import mjcf

EXACT = 1e-7
"""Of central differences in float64 with steps of 1e-6, relative to the largest entry of a block."""

ROBOT = mjcf(
    """
<body name="base" pos="0 0 1"><freejoint/><geom type="box" size="0.2 0.1 0.1" mass="2" pos="0.03 0 0"/>
  <body name="arm" pos="0.3 0 0"><joint name="shoulder" type="ball"/>
    <geom type="capsule" fromto="0 0 0 0.3 0.1 0" size="0.03" mass="0.7"/>
    <body name="hand" pos="0.3 0.1 0"><joint name="wrist" axis="0 1 1" damping="0.2"/>
      <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03" mass="0.3"/></body></body></body>
""",
    rest="""<actuator><motor name="push" joint="wrist" gear="2"/>
    <general name="slow" joint="wrist" dyntype="filter" dynprm="0.05" gainprm="3"/></actuator>
    <option timestep="0.01" integrator="Euler"><flag eulerdamp="disable"/></option>""",
)
"""A free joint, a ball and a hinge, with a motor and a filtered actuator; nothing touches it."""

FLOOR = ROBOT.replace("<worldbody>", '<worldbody><geom type="plane" size="1 1 1" conaffinity="1" pos="0 0 0.85"/>')
SIZE = 2 * 10 + 1


def simulator(text: str, integrator: Integrator, substeps: int = 1) -> Simulator:
    return Simulator(
        load_model(text), num_worlds=3, dt=0.01, substeps=substeps, dtype=torch.float64, integrator=integrator
    )


def random_inputs(text: str) -> tuple[State, Tensor]:
    rng = np.random.default_rng(0)
    model = mujoco.MjModel.from_xml_string(text)
    q, v = (torch.tensor(x) for x in random_states(model, 3, seed=0))
    q[:, :2] *= 0.1
    q[:, 2] = 1.0
    act, control = torch.tensor(rng.uniform(-1.0, 1.0, (3, 1))), torch.tensor(rng.uniform(-1.0, 1.0, (3, 2)))
    return State(q, v, act=act), control


def moved(text: str, q: Tensor, change: np.ndarray) -> Tensor:
    """Return positions after a small change in the coordinates of velocities, by MuJoCo."""
    model, rows = mujoco.MjModel.from_xml_string(text), q.numpy().copy()
    for row in rows:
        mujoco.mj_integratePos(model, row, change, 1.0)
    return torch.tensor(rows)


def between(text: str, one: Tensor, other: Tensor) -> Tensor:
    """Return the change from one position to the other in the coordinates of velocities, by MuJoCo."""
    model = mujoco.MjModel.from_xml_string(text)
    rows = np.zeros((len(one), model.nv))
    for row, a, b in zip(rows, one.numpy(), other.numpy(), strict=True):
        mujoco.mj_differentiatePos(model, row, 1.0, a, b)
    return torch.tensor(rows)


def assert_central_differences(found: Tensor, ends: Callable[[float], State], text: str, column: int) -> None:
    """Compare a column of a Jacobian with the states for a change of one input by ±1e-6."""
    low, high = ends(-1e-6), ends(1e-6)
    assert low.act is not None
    assert high.act is not None
    parts = [between(text, low.q, high.q), high.v - low.v, high.act - low.act]
    expected = torch.cat(parts, dim=-1) / 2e-6
    assert (found[:, :, column] - expected).abs().max() < EXACT * found.abs().max()


@pytest.mark.parametrize("text", [ROBOT, FLOOR], ids=["free", "in contact"])
@pytest.mark.parametrize("integrator", ["implicit", "explicit"])
def test_central_differences(text: str, integrator: Integrator) -> None:
    sim = simulator(text, integrator, substeps=2)
    start, control = random_inputs(text)
    if text is FLOOR:
        assert (sim.contacts(start).depth > 0.0).any(dim=-1).all()
    jacobian = sim.jacobian(start, control)
    assert jacobian.state.shape == (3, SIZE, SIZE)
    assert jacobian.parameters.shape == (3, SIZE, 0)
    end = sim.step(start, control)
    torch.testing.assert_close(jacobian.next_state.q, end.q, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(jacobian.next_state.act, end.act, rtol=1e-12, atol=1e-12)
    for k in range(10):
        unit = np.eye(10)[k]
        assert_central_differences(
            jacobian.q, lambda e, w=unit: sim.step(replace(start, q=moved(text, start.q, e * w)), control), text, k
        )
        push = torch.tensor(unit)
        assert_central_differences(
            jacobian.v, lambda e, w=push: sim.step(replace(start, v=start.v + e * w), control), text, k
        )
    assert start.act is not None
    act = start.act
    assert_central_differences(jacobian.act, lambda e: sim.step(replace(start, act=act + e), control), text, 0)
    for k in range(2):
        knob = torch.eye(2, dtype=torch.float64)[k]
        assert_central_differences(jacobian.control, lambda e, w=knob: sim.step(start, control + e * w), text, k)


def by_mujoco(text: str, start: State, control: Tensor, world: int) -> tuple[np.ndarray, np.ndarray]:
    """Return MuJoCo's matrices A and B by central differences."""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    assert start.act is not None
    data.qpos, data.qvel, data.act = start.q[world].numpy(), start.v[world].numpy(), start.act[world].numpy()
    data.ctrl = control[world].numpy()
    a, b = np.zeros((SIZE, SIZE)), np.zeros((SIZE, model.nu))
    mujoco.mjd_transitionFD(model, data, 1e-6, True, a, b, None, None)
    return a, b


def test_agrees_with_mujoco() -> None:
    start, control = random_inputs(ROBOT)
    found = simulator(ROBOT, "explicit").jacobian(start, control)
    for world in range(3):
        a, b = by_mujoco(ROBOT, start, control, world)
        np.testing.assert_allclose(found.state[world].numpy(), a, rtol=0.0, atol=EXACT * np.abs(a).max())
        np.testing.assert_allclose(found.control[world].numpy(), b, rtol=0.0, atol=EXACT * np.abs(b).max())


def fields(jacobian: StepJacobian) -> dict[str, Tensor]:
    end = jacobian.next_state
    assert end.act is not None
    names = ("q", "v", "act", "control")
    return {"end": torch.cat([end.q, end.v, end.act], dim=-1), **{name: getattr(jacobian, name) for name in names}}


def test_many_worlds_give_the_same_as_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One launch for each row, as with many worlds, or one launch for all."""
    sim = simulator(ROBOT, "explicit")
    start, control = random_inputs(ROBOT)
    together = fields(sim.jacobian(start, control))
    monkeypatch.setattr(type(sim._launcher), "few_worlds", 2)
    for name, expected in fields(sim.jacobian(start, control)).items():
        torch.testing.assert_close(together[name], expected, rtol=1e-12, atol=1e-13)
    assert start.act is not None
    # The number of worlds need not be the simulator's.
    one = fields(sim.jacobian(State(start.q[1:2], start.v[1:2], act=start.act[1:2]), control[1:2]))
    for name, expected in together.items():
        torch.testing.assert_close(one[name], expected[1:2], rtol=1e-12, atol=1e-13)


def test_nothing_is_recorded_or_changed_in_the_inputs() -> None:
    sim = simulator(ROBOT, "explicit")
    start, control = random_inputs(ROBOT)
    v = start.v.clone().requires_grad_()
    with torch.no_grad():
        jacobian = sim.jacobian(replace(start, v=v), control)
    assert not jacobian.state.requires_grad
    assert not jacobian.next_state.v.requires_grad
    assert v.grad is None
    assert torch.equal(fields(sim.jacobian(start, control))["q"], jacobian.q)


def test_defaults_and_refusals() -> None:
    sim = simulator(ROBOT, "explicit")
    start, control = random_inputs(ROBOT)
    assert start.act is not None
    idle = sim.jacobian(replace(start, act=None))
    filled = sim.jacobian(replace(start, act=torch.zeros_like(start.act)), torch.zeros_like(control))
    assert torch.equal(idle.state, filled.state)
    with pytest.raises(InputError, match=r"state.v must be a torch.float64 tensor of shape \[3, 10\]"):
        sim.jacobian(State(start.q, start.v[:, :9]))
    given = Simulator(
        sim.model, num_worlds=3, dt=0.01, substeps=1, readouts={"x": lambda w: w.context["c"][0]}, context={"c": 1}
    )
    with pytest.raises(InputError, match="without context"):
        given.jacobian(start)


def test_parameters() -> None:
    model = load_model(ROBOT)
    parameters = model.parameters("body_mass:hand", "dof_damping:wrist", "actuator_delay", max_delay=0.02)
    sim = Simulator(model, num_worlds=3, dt=0.01, substeps=2, dtype=torch.float64, parameters=parameters)
    start, control = random_inputs(ROBOT)
    values = parameters.defaults(3, dtype=torch.float64)
    values[:, 2] = torch.tensor([0.003, 0.009, 0.015])
    past = torch.tensor(np.random.default_rng(1).uniform(-1.0, 1.0, (3, 2, 2)))
    start = replace(start, past_controls=past)
    jacobian = sim.jacobian(start, control, values)
    assert jacobian.parameters.shape == (3, SIZE, 3)
    for k in range(3):
        unit = torch.eye(3, dtype=torch.float64)[k]
        assert_central_differences(
            jacobian.parameters,
            lambda e, w=unit: sim.step(start, control, parameters=values + e * w),
            ROBOT,
            k,
        )
    later = jacobian.next_state.past_controls
    assert later is not None
    assert torch.equal(later, torch.stack([control, past[:, 0]], dim=1))


def test_earlier_controls_are_constants_even_if_they_are_the_current_one() -> None:
    model = load_model(ROBOT)
    parameters = model.parameters("actuator_delay", max_delay=0.01)
    sim = Simulator(model, num_worlds=3, dt=0.01, substeps=1, dtype=torch.float64, parameters=parameters)
    start, control = random_inputs(ROBOT)
    late, on_time = (torch.full((3, 1), delay, dtype=torch.float64) for delay in (0.01, 0.0))
    assert (sim.jacobian(start, control, late).control == 0.0).all()
    assert (sim.jacobian(start, control, on_time).control != 0.0).any()
