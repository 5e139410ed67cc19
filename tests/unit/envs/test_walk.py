"""`walk`: what a policy sees, what disturbs it, where the robot stands, on robots of the package and on others."""

import math
import re
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
import torch

import ahac
from ahac.envs import Disturbances, Footsteps, JointTargets, NoisyReset, Task, VecEnv, WalkRewards, make_task, walk
from ahac.envs.g1 import WEIGHTS
from ahac.envs.planning import observation_sizes
from ahac.sim import InputError, Model, World, load_model
from support.robots import mjcf


def leg(name: str, x: float, y: float) -> str:
    """A thigh and a shin of 20 cm, with a ball of 2 cm as foot."""
    return f"""
<body name="{name}_thigh" pos="{x} {y} 0"><joint name="{name}_hip" axis="0 1 0" range="-2 2" armature="0.01"/>
  <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="0.5" contype="0"/>
  <body name="{name}_shin" pos="0 0 -0.2"><joint name="{name}_knee" axis="0 1 0" range="-2.5 0" armature="0.01"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.015" mass="0.2" contype="0"/>
    <geom name="{name}_foot" size="0.02" pos="0 0 -0.2" mass="0.05"/></body></body>"""


def robot(legs: Sequence[tuple[str, float, float]], extra: str = "", joint: str = "<freejoint/>") -> Model:
    motors = "".join(
        f'<motor joint="{name}_{part}" gear="20" ctrlrange="-1 1"/>' for name, _, _ in legs for part in ("hip", "knee")
    )
    return load_model(
        mjcf(
            f"""<geom type="plane" size="5 5 1" conaffinity="1"/>
<body name="trunk" pos="0 0 0.5">{joint}<geom name="belly" type="box" size="0.25 0.1 0.05" mass="6"/>
  {"".join(leg(*each) for each in legs)}{extra}</body>""",
            rest=f"<actuator>{motors}</actuator>",
        )
    )


LEGS = [("FL", 0.2, 0.15), ("FR", 0.2, -0.15), ("RL", -0.2, 0.15), ("RR", -0.2, -0.15)]
FEET = tuple(f"{name}_foot" for name, _, _ in LEGS)
STANCE = {"*_hip": 0.6, "*_knee": -1.2}
HEIGHT = 0.4 * math.cos(0.6) + 0.02
"""Of the trunk, with each foot below its hip."""
SERVOS = JointTargets(scale=0.4, kp=40.0, kd=1.0)
TAIL = (
    '<body name="tail" pos="-0.3 0 0"><joint name="tail" type="{}" axis="0 0 1"/><geom size="0.03" mass="0.1"/></body>'
)
WORLDS, DT, SPREAD = 32, 0.02, 1e-9


def dog(model: Model | None = None, **settings: Any) -> Task:  # noqa: ANN401 - settings of walk
    defaults = {"base": "trunk", "feet": FEET, "stance": STANCE, "actions": SERVOS}
    return walk(model or robot(LEGS), **{**defaults, **settings})


def steps_of(task: Task) -> Footsteps:
    found = getattr(task.signals["foot_height"], "__self__", None)
    assert isinstance(found, Footsteps)
    return found


def groups(task: Task) -> dict[str, Any]:
    assert "critic" in task.observation
    return dict(task.observation)


@pytest.fixture(scope="module")
def env() -> VecEnv:
    return ahac.make(dog(), num_envs=WORLDS, dtype=torch.float64)


def parts(env: VecEnv, obs: torch.Tensor, group: str) -> dict[str, torch.Tensor]:
    sizes = env.obs_layout if group == "policy" else env.critic_obs_layout
    return dict(zip(sizes, obs.split(list(sizes.values()), dim=-1), strict=True))


def rollout(env: VecEnv, count: int, seed: int = 0) -> list[dict[str, dict[str, torch.Tensor]]]:
    """What policy and critic observe in steps with random actions, without steps that begin an episode."""
    env.reset(seed=seed)
    generator = torch.Generator().manual_seed(seed)
    found = []
    with torch.no_grad():
        for _ in range(count):
            action = 0.6 * torch.rand(WORLDS, env.spec.action_size, generator=generator, dtype=torch.float64) - 0.3
            step = env.step(action)
            assert not step.done.any(), "a gentle motion of a few steps does not end episodes"
            found.append({"policy": parts(env, step.obs, "policy"), "critic": parts(env, env.critic_obs, "critic")})
    return found


MEASURED = ("angular velocity", "gravity", "joint positions", "joint velocities")


def test_the_policy_sees_what_a_robot_measures() -> None:
    task = dog()
    assert observation_sizes(task) == {
        "angular velocity": 3,
        "gravity": 3,
        "joint positions": 8,
        "joint velocities": 8,
        "last action": 8,
        "command": 3,
        "clock": 8,
    }
    critic = set(groups(task)["critic"])
    assert critic - set(observation_sizes(task)) == {"velocity", "height", "foot heights", "push", "parameters"}


def test_a_history_repeats_the_measurements() -> None:
    once, sizes = observation_sizes(dog()), observation_sizes(dog(history=3))
    assert sizes == {name: size * (3 if name in MEASURED else 1) for name, size in once.items()}


def test_measurements_are_late_and_noisy(env: VecEnv) -> None:
    d = Disturbances()
    bounds = (d.ang_vel_noise, d.gravity_noise, d.joint_pos_noise, 0.1 * d.joint_vel_noise)
    record = rollout(env, 8)
    for name, bound in zip(MEASURED, bounds, strict=True):
        errors = [now["policy"][name] - past["critic"][name] for past, now in pairwise(record)]
        noise = torch.stack(errors)
        assert noise.abs().max() <= bound + SPREAD
        assert noise.abs().max() > 0.9 * bound
        assert abs(noise.mean()) < 0.1 * bound
    exact = [step["critic"]["joint velocities"] for step in record]
    late = torch.stack([now["policy"]["joint velocities"] - e for e, now in zip(exact, record, strict=True)])
    assert late.abs().max() > 3.0 * bounds[-1], "without the delay, only noise would remain"
    for step in record:
        for name in ("last action", "command", "clock"):
            assert torch.equal(step["policy"][name], step["critic"][name])


@pytest.mark.extended
def test_disturbances_can_be_turned_off() -> None:
    off = Disturbances(
        friction=0.8, payload=0.0, motor_strength=1.0, push=0.0, delay=0,
        ang_vel_noise=0.0, gravity_noise=0.0, joint_pos_noise=0.0, joint_vel_noise=0.0,
    )  # fmt: skip
    env = ahac.make(dog(disturbances=off), num_envs=WORLDS, dtype=torch.float64)
    for step in rollout(env, 4):
        for name in MEASURED:
            assert torch.equal(step["policy"][name], step["critic"][name])
        assert (step["critic"]["push"] == 0.0).all()
        assert (step["critic"]["parameters"] == step["critic"]["parameters"][0]).all()


def test_parameters_differ_between_worlds(env: VecEnv) -> None:
    env.reset(seed=1)
    assert env.task.randomize.keys() == {"geom_friction:*", "body_mass:trunk", "actuator_strength:*"}
    named = env.parameters
    friction = torch.stack([v for name, v in named.items() if name.startswith("geom_friction")])
    assert (friction == friction[0]).all(), "one friction for all contacts of a world"
    assert friction.min() >= 0.4
    assert friction.max() <= 1.2
    (mass,) = [v for name, v in named.items() if name.startswith("body_mass")]
    assert mass.min() >= 6.0
    assert 8.0 < mass.max() <= 9.0
    strength = torch.stack([v for name, v in named.items() if name.startswith("actuator_strength")])
    assert len(strength) == 8
    assert strength.std() > 0.03
    assert (strength - 1.0).abs().max() <= 0.1 + SPREAD


def test_the_robot_stands_on_its_feet_in_the_stance() -> None:
    for model in (
        robot(LEGS),
        robot(LEGS, extra='<body name="back" pos="0 0 0.1"><geom size="0.01" mass="0.01"/></body>'),
    ):
        task = dog(model)
        assert isinstance(task.reset, NoisyReset)
        assert task.reset.height == pytest.approx(HEIGHT)
    welded = dog(
        robot(LEGS, extra='<body name="back" pos="0 0 0.1"><geom size="0.01" mass="0.01"/></body>'), base="back"
    )
    assert isinstance(welded.reset, NoisyReset)
    assert welded.reset.height == pytest.approx(HEIGHT), "the height of the free joint, not of the base"


def test_footholds_are_in_the_order_of_the_feet() -> None:
    places = [(x, y) for _, x, y in LEGS]
    for found, place in zip(steps_of(dog()).footholds, places, strict=True):
        assert found == pytest.approx(place, abs=1e-9)
    others = dog(feet=FEET[::-1])
    for found, place in zip(steps_of(others).footholds, places[::-1], strict=True):
        assert found == pytest.approx(place, abs=1e-9)
    assert steps_of(dog()).clock.offsets == (0.0, 0.5, 0.5, 0.0)
    assert steps_of(dog()).clock.frequency == 2.0


def world_of(task: Task, height: float, tilt: float) -> World:
    assert isinstance(task.reset, NoisyReset)
    q = task.reset.stance(task.model)
    q[2], q[3:7] = height, [math.cos(0.5 * tilt), math.sin(0.5 * tilt), 0.0, 0.0]
    return World(task.model, q, [0.0] * task.model.nv, [0.0] * task.model.nu)


@pytest.mark.parametrize(("term", "command"), [("track_lin_vel_xy", (0.35, 0, 0)), ("track_ang_vel_z", (0, 0, 0.5))])
def test_tracking_has_the_scales_of_the_task_pages(term: str, command: tuple[float, ...]) -> None:
    task = make_task("go1")
    values = []
    for factor in (0.0, 1.0):
        world = world_of(task, 0.3, 0.0)
        world.memory = {"command": [*(factor * x for x in command), 5.0]}
        values.append(float(task.reward[term](world, [])))
    assert values[1] / values[0] == pytest.approx(math.exp(-1.0))


@pytest.mark.parametrize("name", ["go1", "go2", "g1"])
def test_episodes_end_below_60_percent_of_the_height_and_beyond_60_degrees(name: str) -> None:
    task = make_task(name)
    assert isinstance(task.reset, NoisyReset)
    assert task.reset.height is not None
    assert task.alive is not None
    height = task.reset.height
    for share, degrees in product((1.0, 0.61), (0.0, 59.0)):
        assert float(task.alive(world_of(task, share * height, math.radians(degrees)))) > 0.0
    assert float(task.alive(world_of(task, 0.59 * height, 0.0))) < 0.0
    assert float(task.alive(world_of(task, height, math.radians(61.0)))) < 0.0


def test_joints_beyond_90_percent_of_their_range_cost() -> None:
    task = make_task("go1")
    calf = next(joint for joint in task.model.joints if joint.name == "FR_calf_joint")
    assert calf.range is not None
    low, high = calf.range
    margin = 0.05 * (high - low)
    costs = []
    for position in (low + 1.01 * margin, low + 0.5 * margin, high - 0.5 * margin):
        world = world_of(task, 0.3, 0.0)
        world.q[calf.q] = position
        costs.append(float(task.reward["joint_limits"](world, [])))
    expected = WalkRewards().joint_limits * (0.5 * margin) ** 2
    assert costs == pytest.approx([0.0, expected, expected], abs=1e-12)


def test_poses_of_legs_are_divided_by_axis() -> None:
    task = make_task("g1")
    terms = {}
    for joint in ("left_hip_pitch_joint", "left_hip_roll_joint", "left_hip_yaw_joint", "waist_yaw_joint"):
        world = world_of(task, 0.8, 0.0)
        q = next(found.q for found in task.model.joints if found.name == joint)
        world.q[q] += 0.1
        groups = ("leg_pose", "leg_side_pose", "other_pose")
        terms[joint] = [group for group in groups if abs(float(task.reward[group](world, []))) > 1e-6]
    assert list(terms.values()) == [["leg_pose"], ["leg_side_pose"], ["leg_side_pose"], ["other_pose"]]


def test_weights_of_zero_and_absent_joints_leave_terms_out() -> None:
    assert "other_pose" not in dog().reward, "all joints are of legs"
    tailed = robot(LEGS, TAIL.format("hinge"))
    assert list(dog(tailed).reward)[-2:] == ["leg_pose", "other_pose"]
    assert "slip" not in dog(weights=WalkRewards(slip=0.0)).reward
    assert observation_sizes(dog(tailed))["joint positions"] == 9
    assert observation_sizes(dog(tailed))["last action"] == 8


def test_the_guide_lists_the_weights() -> None:
    text = (Path(__file__).parents[3] / "docs" / "guides" / "walking.md").read_text(encoding="utf-8")
    table = text.split("### Weights")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (off|[−.\d]+) \| ([−.\d]*) ?\|$", table, re.MULTILINE)

    def number(cell: str) -> float:
        return 0.0 if cell == "off" else float(cell.replace("−", "-"))

    listed = {term: (number(default), number(own or default)) for term, default, own in rows}
    assert listed == {name: (weight, asdict(WEIGHTS)[name]) for name, weight in asdict(WalkRewards()).items()}


def test_other_gaits_need_offsets() -> None:
    hexapod = [(f"{side}{i}", 0.2 * (i - 1), y) for i in range(3) for side, y in (("L", 0.15), ("R", -0.15))]
    feet = [f"{name}_foot" for name, _, _ in hexapod]
    task = dog(robot(hexapod), feet=feet, offsets=(0.0, 0.5, 0.5, 0.0, 0.0, 0.5), frequency=1.0)
    assert observation_sizes(task)["clock"] == 12
    assert dog(robot(LEGS[:2]), feet=FEET[:2]).name
    assert steps_of(dog(robot(LEGS[:2]), feet=FEET[:2])).clock.offsets == (0.0, 0.5)


FIXED = '<joint name="rail" type="slide" axis="1 0 0"/>'


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        (robot(LEGS), {"base": "torso"}, "no body named 'torso'; it has: world, trunk"),
        (robot(LEGS), {"base": "FL_thigh"}, "base must be the body with the free joint of .*, got 'FL_thigh'"),
        (robot(LEGS, joint=FIXED), {}, "base must be the body with the free joint"),
        (robot(LEGS), {"feet": (*FEET[:3], "tail")}, "no contact point is on a geom named 'tail'; geoms"),
        (robot(LEGS), {"feet": FEET[:3]}, "walk knows gaits of 2 and 4 feet, got 3: set offsets"),
        (robot(LEGS), {"offsets": (0.0, 0.5)}, "4 feet but 2 clock.offsets"),
        (robot(LEGS, TAIL.format("ball")), {}, r"has ball joints: \['tail'\]"),
        (robot(LEGS), {"stance": "home"}, "no keyframe 'home'"),
        (robot(LEGS), {"stance": {"ankle": 0.1}}, "no hinge or slide matches 'ankle'"),
        (robot(LEGS), {"actions": JointTargets(scale=0.5)}, "set kp and kd"),
        (robot(LEGS), {"swing_height": -0.1}, "swing_height"),
        (robot(LEGS), {"history": 0}, "history must be a whole number of at least 1, got 0"),
    ],
)
def test_errors_say_what_is_wrong(model: Model, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dog(model, **settings)


def test_gradients_are_finite_and_reach_all_actions(env: VecEnv) -> None:
    env.reset(seed=2)
    actions = torch.zeros(12, WORLDS, env.spec.action_size, dtype=torch.float64, requires_grad=True)
    rewards = [env.step(action).reward for action in actions]
    (gradient,) = torch.autograd.grad(torch.stack(rewards).sum(), actions)
    assert gradient.isfinite().all()
    assert (gradient[:-1].abs().amax(dim=(1, 2)) > 0.0).all()
    env.detach()


@pytest.mark.parametrize(("name", "size"), [("go1", 53), ("go2", 53), ("g1", 228)])
def test_the_tasks_of_the_package_stand_on_the_ground(name: str, size: int) -> None:
    task = make_task(name)
    assert sum(observation_sizes(task).values()) == size
    assert isinstance(task.reset, NoisyReset)
    world = World(task.model, task.reset.stance(task.model), [0.0] * task.model.nv, [0.0] * task.model.nu)
    assert steps_of(task).heights(world, []) == pytest.approx([0.0] * len(steps_of(task).feet), abs=1e-5)
    assert all(abs(y) > 0.05 for _, y in steps_of(task).footholds)
    lefts = [y > 0.0 for _, y in steps_of(task).footholds]
    assert lefts == [True, False] * (len(lefts) // 2), "left feet come first in each pair"


def mjlab_go1() -> Task:
    package = find_spec("mjlab")
    if package is None or package.origin is None:
        pytest.skip("the robot file comes with mjlab: pip install --no-deps mjlab")
    file = Path(package.origin).parent / "asset_zoo/robots/unitree_go1/xmls/go1.xml"
    return walk(
        load_model(file, ground=True),
        base="trunk",
        feet=[f"{foot}_foot_collision" for foot in ("FL", "FR", "RL", "RR")],
        stance={"?R_hip_joint": 0.1, "?L_hip_joint": -0.1, "*_thigh_joint": 0.9, "*_calf_joint": -1.8},
        actions=JointTargets(scale=0.5, kp=25.0, kd=0.8, strength=23.7, armature=0.005),
    )


def test_the_go1_of_mjlab_stands_as_ours() -> None:
    ours, theirs = make_task("go1"), mjlab_go1()
    assert isinstance(ours.reset, NoisyReset)
    assert isinstance(theirs.reset, NoisyReset)
    assert theirs.reset.height == pytest.approx(ours.reset.height, abs=1e-6)
    for a, b in zip(steps_of(ours).footholds, steps_of(theirs).footholds, strict=True):
        assert a == pytest.approx(b, abs=1e-3)


@pytest.mark.extended
def test_the_go1_of_mjlab_has_finite_gradients() -> None:
    env = ahac.make(mjlab_go1(), num_envs=16)
    action = torch.zeros(16, 12, requires_grad=True)
    total = torch.stack([env.step(action).reward for _ in range(8)]).sum()
    total.backward()
    assert action.grad is not None
    assert action.grad.isfinite().all()


@pytest.mark.extended
def test_a_short_training_runs(tmp_path: Path) -> None:
    run = ahac.train("go1", num_envs=16, iterations=3, device="cpu", eval_episodes=4, out=str(tmp_path))
    assert len((run.folder / "metrics.csv").read_text(encoding="utf-8").splitlines()) == 4
    assert math.isfinite(run.evaluate().mean)
