"""Edge cases of environments: inference mode, large actions, gradients and unusual robots."""

import dataclasses

import pytest
import torch

import ahac
from ahac.core.errors import InputError
from ahac.envs import MinHeight, NoisyReset, RobotTask, make_task, observations
from ahac.sim import Integrator, Simulator, State, load_model
from support.integrators import INTEGRATORS

WAIST = """
<mujoco model="waist">
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1"/>
    <body name="pelvis" pos="0 0 .6">
      <freejoint/> <geom type="sphere" size=".1" contype="0"/>
      <body name="torso" pos="0 0 .2">
        <joint name="waist" axis="0 1 0" armature=".1" damping="1"/> <geom type="sphere" size=".1" contype="0"/>
        <body name="arm" pos="0 .2 0">
          <joint name="shoulder" axis="0 1 0" armature=".1" damping="1"/> <geom type="sphere" size=".1" contype="0"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator> <motor joint="shoulder" gear="5" ctrlrange="-1 1"/> </actuator>
</mujoco>
"""
BOXES = """
<mujoco model="boxes">
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1"/>
    <body name="trunk" pos="0 0 .09">
      <freejoint/> <geom type="box" size=".1 .1 .1" mass="3"/>
      <body name="tail" pos="-.2 0 0">
        <joint name="tail" axis="0 1 0"/> <geom type="box" size=".1 .05 .05" mass="1"/>
      </body>
    </body>
  </worldbody>
  <actuator> <motor joint="tail" gear="5" ctrlrange="-1 1"/> </actuator>
</mujoco>
"""
ROUNDING = 1e-5
"""Relative error of float32 after a few operations."""


def test_a_torso_above_a_waist_observes_its_orientation() -> None:
    task = RobotTask(model=load_model(WAIST), torso="torso")
    env = ahac.make(task, num_envs=2)
    sizes = {
        "height": 1,
        "orientation": 4,
        "velocity": 3,
        "angular velocity": 3,
        "root angles": 1,
        "root rates": 1,
        "joint positions": 1,
        "joint velocities": 1,
        "uprightness": 1,
        "heading": 1,
        "last action": 1,
    }
    assert env.obs_layout == sizes
    assert {"upright", "heading"} <= task.reward.keys()


def test_the_orientation_of_a_planar_robot_is_refused() -> None:
    task = dataclasses.replace(make_task("hopper"), observation={"turned": observations.orientation("torso")})
    with pytest.raises(InputError, match="has no free or ball joint; use root_angles"):
        ahac.make(task, num_envs=1)


def test_a_custom_alive_is_kept() -> None:
    end = MinHeight("torso", 0.5)
    assert RobotTask(model=load_model(WAIST), torso="torso", alive=end).alive is end
    lower = dataclasses.replace(make_task("ant"), terminate_below=None, alive=MinHeight("torso", 0.9))
    assert lower.alive == MinHeight("torso", 0.9)


def test_observation_terms_may_do_what_a_trace_can() -> None:
    """Sizes are found by tracing, not by evaluating: this ratio has no value at rest."""
    base = make_task("hopper")
    observation = {
        **base.observation,
        "ratio": lambda world, action: world.velocity("torso").x / world.velocity("torso").z,
    }
    task = dataclasses.replace(base, observation=observation)
    assert ahac.make(task, num_envs=1).obs_layout["ratio"] == 1


def test_steps_in_inference_mode_leave_an_environment_that_can_learn() -> None:
    env = ahac.make("hopper", num_envs=2)
    with torch.inference_mode():
        env.step(torch.zeros(2, 3))
    action = torch.zeros(2, 3, requires_grad=True)
    env.step(action).final_obs.sum().backward()
    assert action.grad is not None
    assert torch.isfinite(action.grad).all()


@pytest.mark.parametrize("size", [1.5, 1e6, 1e20, 3e38])
def test_any_finite_action_is_clipped(size: float) -> None:
    one, other = (ahac.make("hopper", num_envs=2) for _ in range(2))
    large = one.step(torch.full((2, 3), size))
    clipped = other.step(torch.ones(2, 3))
    assert torch.equal(large.obs, clipped.obs)
    assert not large.diverged.any()


def test_a_context_takes_no_gradient() -> None:
    model = load_model(WAIST)
    sim = Simulator(
        model,
        num_worlds=2,
        dt=1 / 60,
        substeps=2,
        context={"scale": 1},
        readouts={"scaled": lambda world: world.context["scale"][0] * world.position("arm").z},
    )
    scale = torch.ones(2, 1, requires_grad=True)
    control = torch.zeros(2, 1, requires_grad=True)
    end = sim.step(sim.rest_state(), control, context={"scale": scale})
    end.readouts["scaled"].sum().backward()
    assert scale.grad is None
    assert control.grad is not None
    assert not sim.evaluate_readouts(State(end.q.detach(), end.v.detach()), context={"scale": scale})[
        "scaled"
    ].requires_grad


def test_the_force_signal_does_not_depend_on_how_fast_one_travels() -> None:
    """A uniform velocity only changes the observer's frame."""
    env = ahac.make("ant", num_envs=8, dtype=torch.float64)
    for _ in range(30):
        env.step(torch.zeros(8, 8, dtype=torch.float64))
    state = env.state
    seen = env.sim.contact_wrenches(state).velocity_product_acceleration
    moved = state.v.clone()
    moved[:, :3] += torch.tensor([8.0, -3.0, 1.0], dtype=torch.float64)
    assert torch.allclose(
        env.sim.contact_wrenches(State(state.q, moved)).velocity_product_acceleration, seen, atol=1e-9
    )
    torso = env.sim.contact_wrenches(state).names.index("torso")
    assert seen[:, torso].abs().max() < 1e-9, "the root itself has none"


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_contact_accelerations_are_rates_of_contact_velocities(integrator: Integrator) -> None:
    """(u(t + h) − u(t)) / h of box corners, which are points of their links, along one substep of first order in h.

    The error is h times the rate of friction, 1e4 / s by default in implicit integration; rounding leaves 1e-7 of it.
    """
    h = 1e-9
    sim = Simulator(load_model(BOXES), num_worlds=4, dt=h, substeps=1, dtype=torch.float64, integrator=integrator)
    rng = torch.Generator().manual_seed(0)
    start = sim.rest_state()
    state = State(start.q, torch.randn(start.v.shape, generator=rng, dtype=torch.float64))
    control = torch.rand(4, 1, generator=rng, dtype=torch.float64)
    rate = (sim.contacts(sim.step(state, control)).velocity - sim.contacts(state).velocity) / h
    found = sim.contact_accelerations(state, control)
    assert found.abs().max() > 10.0, "the points accelerate"
    assert torch.allclose(rate, found, rtol=1e-4, atol=1e-4)


def test_a_custom_pose_sets_the_initial_state() -> None:
    start = NoisyReset(keyframe=None, pose={"wa*": 0.3, "shoulder": -0.2}, height=0.9)
    env = ahac.make(RobotTask(model=load_model(WAIST), torso="torso", reset=start), num_envs=1)
    assert env.state.q[0].tolist() == pytest.approx([0, 0, 0.9, 1, 0, 0, 0, 0.3, -0.2], rel=ROUNDING)
    unknown = NoisyReset(keyframe=None, pose={"knee": 1.0})
    with pytest.raises(InputError, match="no hinge or slide matches 'knee'"):
        ahac.make(RobotTask(model=load_model(WAIST), torso="torso", reset=unknown), num_envs=1)


def test_controls_of_keyframes_become_actions() -> None:
    key = '<keyframe><key name="home" qpos="0 0 1 1 0 0 0 0 0.5" ctrl="0.5"/></keyframe></mujoco>'
    servo = '<position joint="shoulder" kp="10" ctrlrange="0 2"/>'
    source = WAIST.replace('<motor joint="shoulder" gear="5" ctrlrange="-1 1"/>', servo).replace("</mujoco>", key)
    task = RobotTask(model=load_model(source), torso="torso")
    assert load_model(source).keyframes["home"].ctrl == (0.5,)
    assert task.model.keyframes["home"].ctrl == (-0.5,)
    assert dataclasses.replace(task, dt=0.01).model.keyframes["home"].ctrl == (-0.5,)
