"""Activations of actuators as part of the state of a simulator and of an environment."""

import numpy as np
import pytest
import torch

from ahac.core.env import PhysicsState
from ahac.core.errors import InputError
from ahac.envs import NoisyReset, Task, VecEnv
from ahac.sim import Simulator, State, World, load_model
from support.robots import PENDULUM, mjcf

FILTERED = mjcf(
    """<body name="bob" pos="0 0 1"><joint name="swing" axis="0 1 0" damping="0.1"/>
  <geom type="sphere" size="0.05" mass="1" pos="0 0 -0.7"/></body>""",
    rest="""<actuator>
  <general name="slow" joint="swing" dyntype="filter" dynprm="0.2" gainprm="3" ctrlrange="-2 2"/>
  <intvelocity name="ramp" joint="swing" kp="5" actrange="-1 1" ctrlrange="-1 1"/></actuator>
<keyframe><key name="start" qpos="0.3" act="0.5 -0.25"/></keyframe>""",
)
DT = 0.05


def filtered_env() -> VecEnv:
    task = Task(
        name="filtered",
        model=load_model(FILTERED),
        observation={
            "angle": lambda world, action: world.joint_position("swing"),
            "act": lambda world, action: world.act,
        },
        reward={"effort": lambda world, action: -sum(a * a for a in world.act)},
        reset=NoisyReset(joint_position=0.1),
        dt=DT,
        substeps=2,
        episode_steps=5,
    )
    return VecEnv(task, num_envs=3, dtype=torch.float64, seed=1)


def act_of(state: PhysicsState) -> torch.Tensor:
    assert state.act is not None
    return state.act


@pytest.fixture(scope="module")
def sim() -> Simulator:
    return Simulator(load_model(FILTERED), num_worlds=2, dt=DT, substeps=2, dtype=torch.float64)


def test_activation_follows_its_filter(sim: Simulator) -> None:
    state = sim.step(sim.rest_state(), torch.tensor([[1.0, 0.5], [-9.0, 0.0]], dtype=torch.float64))
    decay = 1.0 - np.exp(-DT / 0.2)
    np.testing.assert_allclose(act_of(state), [[decay, 0.5 * DT], [-2.0 * decay, 0.0]], rtol=1e-12)


def test_state_without_activations_starts_from_zero(sim: Simulator) -> None:
    rest = sim.rest_state()
    control = torch.ones(2, 2, dtype=torch.float64)
    one, other = sim.step(rest, control), sim.step(State(rest.q, rest.v), control)
    assert act_of(rest).count_nonzero() == 0
    assert torch.equal(one.v, other.v)
    assert torch.equal(act_of(one), act_of(other))


def test_keyframe_sets_activations(sim: Simulator) -> None:
    assert act_of(sim.rest_state("start")).tolist() == [[0.5, -0.25]] * 2


def test_gradient_reaches_activations_and_controls(sim: Simulator) -> None:
    rest = sim.rest_state()
    act = torch.full((2, 2), 0.3, dtype=torch.float64, requires_grad=True)
    control = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
    end = sim.step(State(rest.q, rest.v, act=act), control)
    (by_act, by_control) = torch.autograd.grad(act_of(end).sum() + end.v.sum(), (act, control))
    assert (by_act != 0.0).all()
    assert (by_control != 0.0).all()
    (by_act,) = torch.autograd.grad(act_of(sim.step(State(rest.q, rest.v, act=act), control)).sum(), act)
    np.testing.assert_allclose(by_act, [[np.exp(-DT / 0.2), 1.0]] * 2, rtol=1e-12)


def test_activations_are_checked(sim: Simulator) -> None:
    rest = sim.rest_state()
    with pytest.raises(InputError, match=r"state\.act"):
        sim.step(State(rest.q, rest.v, act=torch.zeros(2, 3, dtype=torch.float64)))
    plain = Simulator(load_model(PENDULUM), num_worlds=2, dt=DT, substeps=2)
    state = plain.rest_state()
    assert state.act is None
    with pytest.raises(InputError, match=r"state\.act must be None"):
        plain.step(State(state.q, state.v, act=torch.zeros(2, 1)))


def test_is_finite_sees_activations(sim: Simulator) -> None:
    rest = sim.rest_state()
    act = torch.tensor([[0.0, 0.0], [0.0, float("nan")]], dtype=torch.float64)
    assert sim.is_finite(State(rest.q, rest.v, act=act)).tolist() == [True, False]


def test_environment_resets_and_restores_activations() -> None:
    env = filtered_env()
    assert act_of(env.state).tolist() == [[0.5, -0.25]] * 3
    assert torch.equal(env.obs[:, 1:], act_of(env.state))
    action = torch.tensor([[1.0, 0.5]] * 3, dtype=torch.float64)
    env.step(action)
    saved = env.state_dict()
    assert torch.equal(saved["act"], act_of(env.state))
    first = env.step(action)
    env.load_state_dict(saved)
    assert torch.equal(env.step(action).obs, first.obs)
    env.detach(torch.tensor([True, False, True]))
    env.reset_worlds(torch.tensor([True, False, False]))
    assert act_of(env.state)[0].tolist() == [0.5, -0.25]
    assert act_of(env.state)[1].tolist() != [0.5, -0.25]
    for _ in range(3):
        env.step(action)
    assert act_of(env.state)[1].tolist() == [0.5, -0.25], "an episode that ends by its time limit starts over"


def test_stiffness_of_the_dynamics_covers_activations() -> None:
    env = filtered_env()
    step = env.step(torch.zeros(3, 2, dtype=torch.float64))

    def end(x: torch.Tensor) -> torch.Tensor:
        context = {"clock": torch.zeros(3, 2, dtype=x.dtype), "noise": env.buffers[4]}
        found = env.sim.step(State(x[:, :1], x[:, 1:2], act=x[:, 2:4]), x[:, 4:], context=context)
        return torch.cat([found.q, found.v, act_of(found)], dim=-1)

    x = torch.cat([step.state.q, step.state.v, act_of(step.state), step.action], dim=-1)
    eps = 1e-6
    columns = [(end(x + eps * unit) - end(x - eps * unit)) / (2 * eps) for unit in torch.eye(6, dtype=x.dtype)]
    wanted = torch.stack(columns).square().sum(dim=(0, 2)).sqrt()
    np.testing.assert_allclose(env.stiffness(step), wanted, rtol=1e-6)


def test_actions_scale_the_controls_of_activated_actuators() -> None:
    env = filtered_env()
    env.step(torch.tensor([[1.0, 0.0]] * 3, dtype=torch.float64))
    keep = np.exp(-DT / 0.2)
    np.testing.assert_allclose(act_of(env.state)[:, 0], 0.5 * keep + 2.0 * (1.0 - keep), rtol=1e-12)


def test_a_force_law_sees_activations() -> None:
    seen = []

    def law(world: World) -> list:
        seen.append(len(world.act))
        return []

    Simulator(load_model(FILTERED), num_worlds=1, dt=DT, substeps=1, forces=[law])
    assert set(seen) == {2}
