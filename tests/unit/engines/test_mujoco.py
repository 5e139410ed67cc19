# pyright: reportAttributeAccessIssue=false
"""MuJoCo as an engine: the task's robot, actuators and parameters arrive in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ahac.engines import Drive, EngineEnv, EngineState, MujocoEngine, NativeEngine
from ahac.envs import JointTargets, NoisyReset, Task, make_task, observations, rewards, tasks, uniform
from ahac.sim import InputError, Motor, load_model
from support.components import make_task as components_task
from support.flight import DT, WORLDS, flying, small_steps, step_of
from support.marks import extended
from support.robots import mjcf

COARSE, FINE = 100, 200
SECOND_ORDER = 3e-4
"""Difference of the two engines, as a part of the largest change of a velocity, once its first order in the length of
an integration step (0.05 and 0.1 ms) is extrapolated to zero."""

LEG = """
<body name="trunk" pos="0 0 1"><freejoint name="root"/><geom name="box" type="box" size="0.2 0.1 0.05" mass="3"/>
  <body name="thigh" pos="0.1 0.1 0"><joint name="hip" axis="0 1 0" range="-1.5 1.5" {hip}/>
    <geom name="upper" type="capsule" fromto="0 0 0 0 0 -0.2" size="0.03" mass="0.5"/>
    <body name="shin" pos="0 0 -0.25"><joint name="knee" axis="0 1 0" range="-1.5 1.5" {knee}/>
      <geom name="lower" type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="0.3"/></body></body>
  <body name="tail" pos="-0.2 0 0"><joint name="tail" axis="0 0 1" range="-1.5 1.5"/>
    <geom name="rod" type="capsule" fromto="0 0 0 -0.2 0 0" size="0.02" mass="0.2"/></body></body>
"""
OTHER_ORDER = """
<body name="trunk" pos="0 0 1"><freejoint name="base"/><geom name="box" type="box" size="0.2 0.1 0.05" mass="3"/>
  <body name="tail" pos="-0.2 0 0"><joint name="tail" axis="0 0 1" range="-1.5 1.5"/>
    <geom name="rod" type="capsule" fromto="0 0 0 -0.2 0 0" size="0.02" mass="0.2"/></body>
  <body name="thigh" pos="0.1 0.1 0"><joint name="hip" axis="0 1 0" range="-1.5 1.5"/>
    <geom name="a" type="capsule" fromto="0 0 0 0 0 -0.2" size="0.03" mass="0.5"/>
    <body name="shin" pos="0 0 -0.25"><joint name="knee" axis="0 1 0" range="-1.5 1.5"/>
      <geom name="b" type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="0.3"/></body></body></body>
"""


def leg_task(**changes: Any) -> Task:  # noqa: ANN401 - fields of a task
    settings = {
        "name": "leg",
        "model": load_model(mjcf(LEG.format(hip="", knee="")), motors=Motor(strength=5.0), ground=True),
        "observation": {"height": observations.height("trunk")},
        "reward": {"height": lambda world, action: world.position("trunk").z},
        "reset": NoisyReset(keyframe=None),
        "actions": JointTargets(scale=0.5, kp=20.0, kd=0.5, armature=0.01, strength=4.0),
        "integrator": "explicit",
    }
    return Task(**{**settings, **changes})


def difference(task: Task, parameters: torch.Tensor | None = None, model: Path | None = None) -> float:
    """Largest difference of velocities after a step in free flight, without its first order, by their change."""
    found = []
    for substeps in (COARSE, FINE):
        small = small_steps(task, substeps)
        ours = step_of(small, NativeEngine(small, num_worlds=WORLDS, dtype=torch.float64), parameters)
        engine = MujocoEngine(small, num_worlds=WORLDS, timestep=DT / substeps, model=model)
        theirs = step_of(small, engine, parameters)
        found.append(torch.cat([theirs.q - ours.q, theirs.v - ours.v], dim=1))
        change = float((ours.v - flying(small).v).abs().max())
    return float((2.0 * found[1] - found[0]).abs().max()) / change


LARGE = ("humanoid", "snu_humanoid")


@pytest.mark.parametrize("name", [extended(name)[0] if name in LARGE else name for name in tasks()])
def test_bundled_tasks_fly_alike(name: str) -> None:
    assert difference(make_task(name)) < SECOND_ORDER


@pytest.mark.parametrize("name", [extended(name)[0] if name in LARGE else name for name in tasks()])
def test_bundled_tasks_step(name: str) -> None:
    task = make_task(name)
    env = EngineEnv(task, MujocoEngine(task, num_worlds=WORLDS), seed=1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        step = env.step(2.0 * torch.rand(WORLDS, env.spec.action_size, generator=generator) - 1.0)
        assert torch.isfinite(step.obs).all()
        assert torch.isfinite(step.reward).all()
        assert not step.diverged.any()


def test_servos_and_their_armature_arrive() -> None:
    assert difference(leg_task()) < SECOND_ORDER


def test_other_files_are_matched_by_name(tmp_path: Path) -> None:
    file = tmp_path / "other.xml"
    file.write_text(mjcf(OTHER_ORDER), encoding="utf-8")
    task = leg_task()
    assert difference(task, model=file) < SECOND_ORDER
    engine = MujocoEngine(task, num_worlds=1, model=file)
    raw = engine.robot.raw
    assert raw.nu == 3
    assert raw.dof_armature[6:].tolist() == [0.01] * 3
    assert raw.geom("ground").type == 0  # a plane


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OTHER_ORDER.replace('name="knee"', 'name="ankle"'), r"lacks the joints knee and has joints .*: ankle"),
        (OTHER_ORDER.replace('name="tail" axis', 'name="tail" type="slide" axis'), "'tail' is a hinge .* a slide"),
    ],
)
def test_files_of_other_robots_are_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "other.xml"
    file.write_text(mjcf(text), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        MujocoEngine(leg_task(), num_worlds=1, model=file)


def test_models_that_were_not_loaded_need_a_file() -> None:
    task = leg_task(actions=None)
    task = replace(task, model=replace(task.model, source=None))
    with pytest.raises(InputError, match="pass the file"):
        MujocoEngine(task, num_worlds=1)


RANDOMIZED = {
    "body_mass:*": uniform(0.9, 1.3, "scale"),
    "body_inertia:trunk": uniform(1.0, 1.3, "scale"),
    "body_ipos:trunk": uniform(-0.02, 0.02, "add"),
    "body_pos:shin": uniform(-0.02, 0.02, "add"),
    "dof_armature:*": uniform(0.0, 0.02, "add"),
    "dof_damping:*": uniform(0.0, 0.5),
    "jnt_stiffness:*": uniform(0.0, 5.0),
    "qpos_spring:*": uniform(-0.2, 0.2),
    "joint_offset:*": uniform(-0.1, 0.1),
    "actuator_gain:*": uniform(0.7, 1.3, "scale"),
    "actuator_damping:*": uniform(0.7, 1.3, "scale"),
    "actuator_strength:*": uniform(0.5, 1.0),
    "gravity": uniform([-0.5, -0.5, -10.0], [0.5, 0.5, -9.0]),
}


def drawn(task: Task) -> torch.Tensor:
    """Parameters of the first episodes."""
    engine = NativeEngine(task, num_worlds=WORLDS, dtype=torch.float64)
    values = EngineEnv(task, engine, seed=5, dtype=torch.float64).state.parameters
    assert values is not None
    return values


@pytest.mark.parametrize("other", [False, True], ids=["own file", "other file"])
def test_randomized_parameters_arrive(other: bool, tmp_path: Path) -> None:
    file = tmp_path / "other.xml"
    file.write_text(mjcf(OTHER_ORDER), encoding="utf-8")
    task = leg_task(randomize=RANDOMIZED)
    assert difference(task, drawn(task), file if other else None) < SECOND_ORDER


def test_parameters_without_counterpart_are_named() -> None:
    task = leg_task(randomize={"geom_size:upper": uniform(0.02, 0.04), "gravity": uniform(0.9, 1.1, "scale")})
    with pytest.raises(InputError, match=r"without a counterpart in MuJoCo: geom_size:upper;"):
        MujocoEngine(task, num_worlds=1)


SLED = mjcf(
    """<geom name="floor" type="plane" size="5 5 1" conaffinity="1" friction="1 0.005 0.0001"/>
<body name="sled" pos="0 0 0.1"><joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
  <geom name="runner" type="box" size="0.4 0.4 0.1" mass="2" friction="0.3 0.005 0.0001"/></body>
<body name="arm" pos="3 0 1"><joint name="arm" axis="0 1 0"/>
  <geom type="sphere" size="0.1" mass="1" contype="0" conaffinity="0"/></body>""",
    rest='<actuator><motor joint="arm" ctrlrange="-1 1"/></actuator>',
)


def test_friction_acts_against_the_plane(tmp_path: Path) -> None:
    """A sled on a rougher floor stops with its own friction, also if the file has another name for its geom."""
    frictions = (0.2, 0.4, 0.6)
    task = Task(
        name="sled",
        model=load_model(SLED),
        observation={"height": observations.height("sled")},
        reward={"height": lambda world, action: world.position("sled").z},
        reset=NoisyReset(keyframe=None),
        randomize={"geom_friction:runner": uniform(0.1, 1.0)},
        dt=0.1,
    )
    file = tmp_path / "renamed.xml"
    file.write_text(SLED.replace('name="runner"', 'name="plank"'), encoding="utf-8")
    for model in (None, file):
        engine = MujocoEngine(task, num_worlds=3, model=model)
        q = torch.tensor(task.model.rest_q, dtype=torch.float64).repeat(3, 1)
        v = torch.zeros(3, 3, dtype=torch.float64)
        v[:, 0] = 6.0
        values = torch.tensor(frictions, dtype=torch.float64)[:, None]
        drive = Drive(torch.zeros(3, 1, dtype=torch.float64), torch.zeros(3, 3, dtype=torch.float64), values)
        first = engine.step(EngineState(q, v), drive)
        second = engine.step(first, drive)
        change = second.v - first.v
        slowed = -change[:, 0] / (9.81 * task.dt + change[:, 1])  # impulse of the friction by that of the ground
        torch.testing.assert_close(slowed, torch.tensor(frictions, dtype=torch.float64), rtol=0.05, atol=0.0)


def test_own_file_has_the_friction_of_the_task() -> None:
    raw = MujocoEngine(make_task("hopper"), num_worlds=1).robot.raw
    assert raw.geom("foot").friction[0] == 0.9
    assert raw.geom("foot").priority > raw.geom("floor").priority


def test_worlds_that_diverge_are_reset() -> None:
    task = make_task("hopper")
    env = EngineEnv(task, MujocoEngine(task, num_worlds=2), seed=1)
    state = env.state_dict()
    state["v"][1] = 1e8
    env.load_state_dict(state)
    step = env.step(torch.zeros(2, 3))
    assert step.diverged.tolist() == [False, True]
    assert torch.isfinite(env.step(torch.zeros(2, 3)).obs).all()


def test_delays_pushes_memory_and_randomization_run() -> None:
    task = replace(
        components_task(), randomize={"body_mass:trunk": uniform(0.8, 1.2, "scale"), "actuator_delay": uniform(0, 0.03)}
    )
    env = EngineEnv(task, MujocoEngine(task, num_worlds=4), seed=1)
    ended = 0
    for _ in range(60):
        step = env.step(torch.zeros(4, 2))
        assert torch.isfinite(step.obs).all()
        ended += int(step.done.sum())
    assert ended >= 4


def test_threads_do_not_matter() -> None:
    task = make_task("ant")
    ends = []
    for threads in (1, 2):
        with MujocoEngine(task, num_worlds=3, num_threads=threads) as engine:
            env = EngineEnv(task, engine, seed=2)
            for _ in range(5):
                step = env.step(torch.full((3, 8), 0.3))
            ends.append(step.obs)
    assert torch.equal(*ends)


def test_timestep_divides_the_control_step() -> None:
    engine = MujocoEngine(make_task("hopper"), num_worlds=1, timestep=0.002)
    assert engine.steps == 8
    assert engine.robot.raw.opt.timestep == pytest.approx(1.0 / 480.0)
    with pytest.raises(InputError, match="timestep"):
        MujocoEngine(make_task("hopper"), num_worlds=1, timestep=0.0)


@pytest.mark.parametrize("actuators", ["muscles", "filters", "fixed tendon"])
def test_actuators_of_files_arrive(actuators: str) -> None:
    drives = {
        "muscles": '<muscle name="m" tendon="cord" ctrlrange="0 1" lengthrange="0.1 0.5" force="30"/>',
        "filters": '<general name="f" joint="hip" ctrlrange="-2 3" dyntype="filter" dynprm="0.05" gainprm="4"/>',
        "fixed tendon": '<position name="p" tendon="both" kp="15" kv="0.4" ctrlrange="-1 1" gear="2"/>',
    }
    body = LEG.format(hip="", knee="").replace('<joint name="hip"', '<site name="s1" pos="0.05 0 0"/><joint name="hip"')
    body = body.replace('<joint name="knee"', '<site name="s2" pos="0.05 0 -0.1"/><joint name="knee"')
    tendons = (
        '<tendon><spatial name="cord"><site site="s1"/><site site="s2"/></spatial>'
        '<fixed name="both"><joint joint="hip" coef="1"/><joint joint="knee" coef="-0.5"/></fixed></tendon>'
    )
    text = mjcf(body, rest=f"{tendons}<actuator>{drives[actuators]}</actuator>")
    task = leg_task(model=load_model(text, ground=True), actions=None)
    assert difference(task) < SECOND_ORDER


def test_rewards_and_observations_are_those_of_the_task() -> None:
    """The observation of a reset does not depend on the engine."""
    task = leg_task(reward={"alive": rewards.weighted(2.0, lambda world, action: 1.0)})
    ours = EngineEnv(task, NativeEngine(task, num_worlds=2), seed=7)
    theirs = EngineEnv(task, MujocoEngine(task, num_worlds=2), seed=7)
    assert torch.equal(ours.obs, theirs.obs)
    assert theirs.step(torch.zeros(2, 3)).reward.tolist() == [2.0, 2.0]
