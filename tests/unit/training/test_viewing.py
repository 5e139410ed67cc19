"""View sources: frames of a simulator's worlds, policies, pushes, and checkpoints loaded during training."""

from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
import torch

import ahac
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.errors import InputError
from ahac.envs import VecEnv, hold_command, make_task, uniform
from ahac.sim import Simulator, load_model
from ahac.training.run import create_run
from ahac.training.trainer import train
from ahac.training.viewing import EnvSource, RobotSource, dummy_policy, record_trajectory
from support.remembering import remembering_task
from support.small_runs import small_config

BALL = """<mujoco model="ball"><worldbody><geom type="plane" size="1 1 1"/>
<body name="ball" pos="0 0 0.0995"><freejoint/><geom name="g" size="0.1" mass="1"/></body></worldbody></mujoco>"""
FIXED = """<mujoco model="arm"><worldbody><body name="arm"><joint name="j" axis="0 1 0"/><geom size="0.1" pos="0 0 -1"/>
</body></worldbody><actuator><motor name="m" joint="j" gear="3" ctrlrange="-2 2"/></actuator></mujoco>"""


@pytest.fixture
def hopper() -> VecEnv:
    return ahac.make("hopper", num_envs=2)


def robot(text: str, worlds: int = 2) -> RobotSource:
    model = load_model(text)
    return RobotSource(Simulator(model, num_worlds=worlds, dt=1 / 60, substeps=16), dummy_policy("zero", model.nu))


def test_a_frame_has_the_poses_and_forces_of_the_simulator() -> None:
    stage = robot(BALL)
    frame = stage.reset()
    ball = stage.scene.bodies.index("ball")
    assert frame.position[:, ball].tolist() == [pytest.approx([0.0, 0.0, 0.0995], abs=1e-6)] * 2
    assert frame.quaternion[:, ball].tolist() == [pytest.approx([1.0, 0.0, 0.0, 0.0])] * 2
    # Half a millimetre deep, where a whole one carries its weight: half the weight, upwards.
    assert frame.force[0, 0].tolist() == pytest.approx([0.0, 0.0, 0.5 * 9.81], rel=1e-3, abs=1e-3)
    assert frame.activation.shape == (2, 0)


def test_torques_are_controls_times_gear_within_their_range() -> None:
    model = load_model(FIXED)
    sim = Simulator(model, num_worlds=1, dt=1 / 60, substeps=4)
    stage = RobotSource(sim, lambda q: torch.full((1, 1), 5.0))
    assert stage.step().channels["torque m"].tolist() == pytest.approx([6.0])


@pytest.mark.extended
def test_muscles_show_their_activation() -> None:
    env = ahac.make("snu_humanoid", num_envs=1, early_termination=False)  # compiled for test_standing.py, too
    stage = EnvSource(env, dummy_policy("zero", 152))
    assert stage.step().activation.tolist() == [pytest.approx([0.5] * 152)]
    full = EnvSource(env, lambda obs: torch.ones(1, 152))
    assert full.step().activation.min() == 1.0


def test_an_environment_is_recorded_as_it_goes(hopper: VecEnv) -> None:
    seen = record_trajectory(EnvSource(hopper, dummy_policy("random", 3)), seconds=0.5)
    assert len(seen) == 31, "where it began, and thirty steps"
    assert seen.num_worlds == 2
    assert {"reward", "stiffness"} <= seen.channels.keys()
    assert np.isfinite(seen.position).all()
    assert np.abs(np.diff(seen.position, axis=0)).max() > 1e-3


def test_dummy_policies_are_zero_or_random(hopper: VecEnv) -> None:
    assert not dummy_policy("zero", 3)(hopper.obs).any()
    first, second = (dummy_policy("random", 3, seed=4)(hopper.obs) for _ in range(2))
    assert torch.equal(first, second)
    assert first.abs().max() <= 1.0
    assert first.std() > 0.2
    with pytest.raises(InputError, match="no agent named 'lazy'; known: zero, random"):
        dummy_policy("lazy", 3)


def test_a_push_changes_the_roots_velocity_along_the_ground() -> None:
    stage = robot(BALL)
    stage.reset()
    stage.push()
    moved = stage.step().position[:, stage.scene.bodies.index("ball"), :2]
    assert np.linalg.norm(moved, axis=-1).min() > 0.01
    assert moved[0].tolist() == pytest.approx(moved[1].tolist())


def test_a_push_of_an_environment_is_felt_in_the_next_step(hopper: VecEnv) -> None:
    stage = EnvSource(hopper, dummy_policy("zero", 3))
    before = hopper.state.v.clone()
    stage.push()
    assert (hopper.state.v - before).abs().max() > 0.0
    assert (hopper.state.v - before)[:, 2:].abs().max() == 0.0, "slides alone"


def test_a_fixed_robot_cannot_be_pushed() -> None:
    with pytest.raises(InputError, match="arm cannot be pushed: its root does not move along the ground"):
        robot(FIXED).push()


def test_checkpoints_can_be_chosen_and_new_ones_are_loaded(tmp_path: Path) -> None:
    run = create_run(small_config(tmp_path, iterations=8, checkpoint_every=2))
    train(run, 4, display=False)
    stage = EnvSource(ahac.make("hopper", num_envs=1), run.algo.act, run, newest=True)
    assert stage.checkpoints == ("best", "last", "iteration-000002", "iteration-000004") or stage.checkpoints == (
        "last",
        "iteration-000002",
        "iteration-000004",
    )
    assert isinstance(run.algo, ShortHorizonActorCritic)
    last = [x.detach().clone() for x in run.algo.actor.parameters()]
    stage.load_checkpoint("iteration-000002")
    early = [x.detach().clone() for x in run.algo.actor.parameters()]
    assert any(not torch.equal(a, b) for a, b in zip(last, early, strict=True))
    for _ in range(5):
        stage.step()
    assert all(torch.equal(a, b) for a, b in zip(last, run.algo.actor.parameters(), strict=True)), "the newest"


def test_fewer_frames_are_shown_of_a_run_in_training() -> None:
    every, few = (
        EnvSource(ahac.make("hopper", num_envs=1), dummy_policy("zero", 3), newest=newest) for newest in (False, True)
    )
    assert (every.dt, few.dt) == pytest.approx((1 / 60, 0.1))
    frames = [every.step() for _ in range(6)]
    assert few.step().position.tolist() == frames[-1].position.tolist(), "the worlds move as they always do"


def test_without_a_run_there_is_nothing_to_choose(hopper: VecEnv) -> None:
    stage = EnvSource(hopper, dummy_policy("zero", 3))
    assert stage.checkpoints == ()
    with pytest.raises(InputError, match="no checkpoints to choose from"):
        stage.load_checkpoint("last")


def test_worlds_are_shown_with_their_own_parameters() -> None:
    task = remembering_task(randomize={"body_pos:cart": uniform([0.0, 0.0, 2.0], [0.0, 0.0, 3.0])})
    env = VecEnv(task, num_envs=3)
    stage = EnvSource(env, dummy_policy("zero", 1))
    found = stage.reset().position[:, stage.scene.bodies.index("cart"), 2]
    height = env.parameters["body_pos:cart"][:, 2].numpy()
    assert len(set(height)) == 3
    np.testing.assert_allclose(found, height, rtol=1e-6)


def test_a_view_follows_a_command_until_it_is_released() -> None:
    source = EnvSource(ahac.make("go1", num_envs=2), dummy_policy("zero", 12))
    assert source.command_ranges == ((-0.5, 1.0), (-0.4, 0.4), (-0.8, 0.8))
    source.set_command((0.5, 0.0, -0.25))
    for action in (source.step, source.reset, source.step):
        action()
    assert source.command == (0.5, 0.0, -0.25)
    assert source.env.memory["command"][:, :3].tolist() == [[0.5, 0.0, -0.25]] * 2
    source.set_command(None)
    source.step()
    assert source.command is None
    drawn = source.env.memory["command"].clone()
    assert (drawn[:, :3] != torch.tensor([0.5, 0.0, -0.25])).any()
    source.set_command(None)
    source.step()
    assert torch.equal(source.env.memory["command"], drawn), "no new command before the drawn one ends"


def test_a_recording_of_a_held_command_observes_it_in_every_step() -> None:
    env = ahac.make(hold_command(replace(make_task("go1"), episode_steps=3)), num_envs=2)
    start = sum(size for _, size in takewhile(lambda part: part[0] != "command", env.obs_layout.items()))
    seen: list[list[float]] = []

    def act(obs: torch.Tensor) -> torch.Tensor:
        seen.extend(obs[:, start : start + 3].tolist())
        return torch.zeros(2, 12)

    source = EnvSource(env, act)
    source.set_command((0.5, 0.0, -0.25))
    record_trajectory(source, 8 * env.spec.dt)
    assert seen == [[0.5, 0.0, -0.25]] * 16


def test_a_view_without_commands_refuses_one(hopper: VecEnv) -> None:
    source = EnvSource(hopper, dummy_policy("zero", 3))
    assert source.command_ranges == ()
    with pytest.raises(InputError, match="hopper follows no velocity commands"):
        source.set_command((0.5, 0.0, 0.0))
    assert source.command is None
    with pytest.raises(InputError, match="a robot without a task follows no velocity commands"):
        robot(BALL).set_command((0.5, 0.0, 0.0))
