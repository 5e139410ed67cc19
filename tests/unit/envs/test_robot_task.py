"""Any robot as a task: files that are not ours, a URDF written here, and terms, senses and starts of one's own."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

import ahac
from ahac.envs import Action, Draw, NoisyReset, ResetFn, RobotTask, Step, Task, VecEnv, rewards
from ahac.sim import InputError, Model, Motor, Real, Simulator, State, TraceError, World, load_model
from support.marks import keep
from support.robots import PENDULUM, SERVO_ARM, gymnasium_file, mjcf

WORLDS = 32
STEPS = 100

ROUNDING = 1e-5
"""Of sums and kinematics of a few numbers near one, in float32."""

EPS = 1e-6
GRADIENT_TOLERANCE = 1e-6
"""Relative, in float64: truncation (EPS²) and rounding (1e-16 / EPS) leave 1e-9, stiff contact a little more."""

LEGS = {"fl": (0.2, 0.12), "fr": (0.2, -0.12), "rl": (-0.2, 0.12), "rr": (-0.2, -0.12)}
STANDING = 0.42
"""Height at which the dog's straight legs just touch the ground [m]."""


def urdf_link(name: str, mass: float, shape: str, below: float = 0.0) -> str:
    at = f'<origin xyz="0 0 {-below}"/>'
    inertia = f'<inertia ixx="{mass / 50}" iyy="{mass / 50}" izz="{mass / 50}" ixy="0" ixz="0" iyz="0"/>'
    return (
        f'<link name="{name}"><inertial>{at}<mass value="{mass}"/>{inertia}</inertial>'
        f"<collision>{at}<geometry>{shape}</geometry></collision></link>"
    )


def urdf_hinge(name: str, parent: str, child: str, at: str) -> str:
    return (
        f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/><origin xyz="{at}"/>'
        '<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="20" velocity="10"/></joint>'
    )


def urdf_dog() -> str:
    """A trunk on four legs of two hinges; like all URDFs it stands with its base at the origin, and has no motors."""
    parts = [urdf_link("trunk", 6.0, '<box size="0.5 0.2 0.1"/>')]
    for leg, (x, y) in LEGS.items():
        parts += [
            urdf_link(f"{leg}_thigh", 0.8, '<sphere radius="0.03"/>', below=0.1),
            urdf_link(f"{leg}_shin", 0.3, '<sphere radius="0.02"/>', below=0.2),
            urdf_hinge(f"{leg}_hip", "trunk", f"{leg}_thigh", f"{x} {y} 0"),
            urdf_hinge(f"{leg}_knee", f"{leg}_thigh", f"{leg}_shin", "0 0 -0.2"),
        ]
    return f'<robot name="dog">{"".join(parts)}</robot>'


def standing(model: Model, draw: Draw) -> tuple[list[Real], list[Real]]:
    """A start of one's own: the reference pose, lifted, with bent legs."""
    q = [*model.rest_q[:2], STANDING, *model.rest_q[3:7], *(draw(-0.2, 0.2) for _ in model.rest_q[7:])]
    return q, [draw(-0.1, 0.1) for _ in range(model.nv)]


def planar(name: str) -> Task:
    return RobotTask(model=load_model(gymnasium_file(name)), torso="torso")


def dog() -> Task:
    motor = Motor(strength=15.0, armature=0.01, damping=0.5)
    model = load_model(urdf_dog(), floating=True, ground=True, motors=motor)
    return RobotTask(model=model, torso="trunk", terminate_below=0.2, reset=standing)


ROBOTS: dict[str, Callable[[], Task]] = {
    "walker2d": lambda: planar("walker2d"), "half_cheetah": lambda: planar("half_cheetah"), "dog": dog,
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What was seen over a hundred random steps."""

    env: VecEnv
    steps: list[Step]


@pytest.fixture(scope="module", params=ROBOTS)
def run(request: pytest.FixtureRequest, device: torch.device) -> Run:
    env = ahac.make(ROBOTS[request.param](), num_envs=WORLDS, device=device)
    generator = torch.Generator(device).manual_seed(1)
    with torch.no_grad():
        return Run(env, [env.step(random_action(env, generator)) for _ in range(STEPS)])


@pytest.fixture(scope="module")
def walker(device: torch.device) -> VecEnv:
    task = replace(planar("walker2d"), name="falling walker", alive=lambda world: world.position("torso").z - 0.9)
    return ahac.make(task, num_envs=WORLDS, device=device)


def random_action(env: VecEnv, generator: torch.Generator) -> Tensor:
    shape = (env.spec.num_envs, env.spec.action_size)
    return 2.0 * torch.rand(shape, generator=generator, device=env.spec.device, dtype=env.spec.dtype) - 1.0


def term(env: VecEnv, step: Step, name: str) -> Tensor:
    return step.reward_terms[:, list(env.task.reward).index(name)]


def part(env: VecEnv, obs: Tensor, name: str) -> Tensor:
    return dict(zip(env.obs_layout, obs.split(list(env.obs_layout.values()), dim=-1), strict=True))[name]


def test_sizes_follow_from_the_robot(run: Run) -> None:
    model, layout = run.env.task.model, run.env.obs_layout
    root = {"height": 1, "orientation": 4, "velocity": 3, "angular velocity": 3}
    balance = {"uprightness": 1, "heading": 1}
    if "orientation" not in layout:
        root, balance = {"height": 1, "root angles": 1, "root velocities": 3}, {}
    limbs = {"joint positions": model.nu, "joint velocities": model.nu}
    assert layout == {**root, **limbs, **balance, "last action": model.nu}
    assert run.env.spec.obs_size == run.env.obs.shape[1] == sum(layout.values())
    assert run.env.spec.action_size == model.nu
    assert run.env.spec.name == model.name


def test_a_hundred_random_steps_stay_finite(run: Run) -> None:
    for step in run.steps:
        assert not step.diverged.any()
        for value in (step.obs, step.final_obs, step.reward, step.next_state.q, step.next_state.v):
            assert value.isfinite().all()


def test_every_number_of_an_observation_says_something(run: Run) -> None:
    seen = torch.cat([step.final_obs for step in run.steps])
    assert (seen.std(dim=0) > 1e-3).all(), f"{run.env.spec.name}: {seen.std(dim=0)}"


def test_the_reward_is_the_sum_of_terms_by_name(run: Run) -> None:
    floating = ["forward", "upright", "heading", "effort"]
    assert list(run.env.task.reward) == (floating if "orientation" in run.env.obs_layout else ["forward", "effort"])
    for step in run.steps:
        assert torch.allclose(step.reward, step.reward_terms.sum(dim=-1), atol=ROUNDING)
        assert torch.allclose(term(run.env, step, "effort"), -0.01 * step.action.square().sum(dim=-1), atol=ROUNDING)
        assert torch.allclose(part(run.env, step.final_obs, "last action"), step.action)
        # All three have x as the first coordinate of the root, and their torso's origin on its axes.
        assert torch.allclose(term(run.env, step, "forward"), step.state.v[:, 0], atol=ROUNDING)


def test_an_episode_ends_where_the_torso_is_too_low(run: Run) -> None:
    if run.env.task.alive is None:
        assert not any(step.terminated.any() for step in run.steps)
        return
    torso = list(run.env.task.model.bodies).index("trunk")
    fallen = 0
    for step in run.steps:
        height = run.env.sim.poses(step.next_state.q).position[:, torso, 2]
        clear = (height - 0.2).abs() > ROUNDING
        assert (step.terminated == (height < 0.2))[clear].all()
        fallen += int(step.terminated.sum())
    assert fallen > 0


def test_without_early_termination_nothing_ends_before_its_time(walker: VecEnv) -> None:
    patient = ahac.make(walker.task, num_envs=WORLDS, device=walker.spec.device, early_termination=False)
    still = torch.zeros(WORLDS, patient.spec.action_size, device=walker.spec.device)
    ended = {env: 0 for env in (walker, patient)}
    for env in ended:
        env.reset(seed=0)
        with torch.no_grad():
            ended[env] = sum(int(env.step(still).done.sum()) for _ in range(STEPS))
    assert ended[walker] > 0
    assert ended[patient] == 0


@pytest.mark.parametrize("name", keep(1, ["walker2d", "half_cheetah"]))
def test_gradient_of_a_few_steps_is_that_of_central_differences(name: str, device: torch.device) -> None:
    env = ahac.make(planar(name), num_envs=4, device=device, dtype=torch.float64, seed=3)
    generator = torch.Generator(device).manual_seed(5)
    actions = [0.5 * random_action(env, generator) for _ in range(12)]  # the cheetah lands in the seventh
    directions = [random_action(env, generator) for _ in actions]
    weights = torch.linspace(-1.0, 1.0, env.spec.obs_size, device=device, dtype=torch.float64)
    begin = env.state_dict()

    def gain(given: list[Tensor]) -> Tensor:
        env.load_state_dict(begin)
        steps = [env.step(action) for action in given]
        return sum((step.reward for step in steps), steps[-1].final_obs @ weights)

    leaves = [action.clone().requires_grad_() for action in actions]
    slopes = torch.autograd.grad(gain(leaves).sum(), leaves)
    exact = sum((g * d).sum(dim=-1) for g, d in zip(slopes, directions, strict=True))
    ahead, behind = (gain([a + s * EPS * d for a, d in zip(actions, directions, strict=True)]) for s in (1.0, -1.0))
    assert isinstance(exact, Tensor)
    assert torch.allclose((ahead - behind).detach() / (2.0 * EPS), exact, rtol=GRADIENT_TOLERANCE, atol=1e-8)
    assert (exact.abs() > 1e-3).all()
    assert (env.sim.contacts(env.state).depth > 0.0).any(), "the robot touches the ground"


def test_a_term_of_ones_own_is_three_lines(walker: VecEnv) -> None:
    def spin(world: World, action: Action) -> Real:
        return -0.1 * world.angular_velocity("torso").y ** 2

    task = replace(walker.task, reward={**walker.task.reward, "spin": spin})
    env = ahac.make(task, num_envs=4, device=walker.spec.device)
    step = env.step(torch.ones(4, env.spec.action_size, device=walker.spec.device))
    step = env.step(step.action)
    rate = step.state.v[:, 2]
    assert torch.allclose(term(env, step, "spin"), -0.1 * rate**2, atol=ROUNDING)
    assert torch.allclose(step.reward, step.reward_terms.sum(dim=-1), atol=ROUNDING)
    assert (rate.abs() > 1e-2).all()


def test_a_sense_of_ones_own_is_seen_after_the_others(walker: VecEnv) -> None:
    def foot(world: World, action: Action) -> list[Real]:
        return [world.position("foot").z, world.velocity("foot").x]

    task = replace(walker.task, observation={**walker.task.observation, "foot": foot})
    env = ahac.make(task, num_envs=4, device=walker.spec.device)
    step = env.step(torch.ones(4, env.spec.action_size, device=walker.spec.device))
    place = env.sim.poses(step.next_state.q).position[:, list(env.task.model.bodies).index("foot")]
    assert list(env.obs_layout)[-1] == "foot"
    assert env.obs_layout["foot"] == 2
    assert torch.allclose(step.final_obs[:, -2], place[:, 2], atol=ROUNDING)


def test_a_term_may_look_at_what_a_step_led_to(walker: VecEnv) -> None:
    def progress(world: World, action: Action) -> Real:
        assert world.after is not None
        return world.after.position("torso").x - world.position("torso").x

    env = ahac.make(replace(walker.task, reward={"progress": progress}), num_envs=4, device=walker.spec.device)
    step = env.step(torch.ones(4, env.spec.action_size, device=walker.spec.device))
    assert torch.allclose(step.reward, step.next_state.q[:, 0] - step.state.q[:, 0], atol=ROUNDING)


def test_episodes_begin_within_the_noise_of_their_start() -> None:
    noise = NoisyReset(keyframe=None, root_position=0.03, joint_position=0.2, velocity=0.4)
    env = ahac.make(replace(planar("walker2d"), reset=noise), num_envs=256)
    rest = torch.tensor(env.task.model.rest_q)
    offset = env.state.q - rest
    bounds = torch.tensor([0.03, 0.03, *[0.2] * 7])
    assert (offset.abs() <= bounds + ROUNDING).all()
    assert (offset.abs().amax(dim=0) > 0.9 * bounds).all(), "the bounds are reached"
    assert (env.state.v.abs() <= 0.4 + ROUNDING).all()
    quiet = ahac.make(replace(env.task, reset=NoisyReset(keyframe=None)), num_envs=2)
    assert torch.equal(quiet.state.q, rest.expand(2, -1))
    assert not quiet.state.v.any()


def test_a_free_root_is_turned_by_unit_quaternions_of_bounded_angle() -> None:
    env = ahac.make(replace(dog(), reset=NoisyReset(keyframe=None, root_rotation=0.3)), num_envs=256)
    turn = env.state.q[:, 3:7]
    angle = 2.0 * torch.atan2(turn[:, 1:].norm(dim=-1), turn[:, 0].abs())
    assert torch.allclose(turn.norm(dim=-1), torch.ones(256), atol=ROUNDING)
    assert angle.max() <= 0.3 + ROUNDING
    assert angle.max() > 0.27


def test_a_urdf_stands_on_its_feet_with_a_motor_on_every_joint() -> None:
    task = dog()
    assert [actuator.name for actuator in task.model.actuators] == [
        f"{leg}_{j}" for leg in LEGS for j in ("hip", "knee")
    ]
    assert task.model.armature[6:] == (0.01,) * 8
    assert task.model.damping[6:] == (0.5,) * 8
    assert [joint.range for joint in task.model.joints[-8:]] == [(-1.0, 1.0)] * 8
    assert len(task.model.planes) == 1


def test_an_action_spans_the_control_range(device: torch.device) -> None:
    servo = mjcf(
        '<body name="arm" pos="0 0 1"><joint name="hinge" axis="0 1 0" damping="1"/><geom size="0.1"/></body>',
        rest='<actuator><position joint="hinge" kp="20" ctrlrange="0.2 1" ctrllimited="true"/></actuator>',
    )
    model = load_model(servo)
    env = ahac.make(RobotTask(model=model, torso="arm", reset=NoisyReset(keyframe=None)), num_envs=3, device=device)
    action = torch.tensor([[-1.0], [0.0], [5.0]], device=device)
    step = env.step(action)
    sim = Simulator(model, num_worlds=3, dt=env.spec.dt, substeps=env.task.substeps, device=device)
    wanted = sim.step(State(step.state.q, step.state.v), torch.tensor([[0.2], [0.6], [1.0]], device=device))
    assert torch.allclose(step.next_state.v, wanted.v, atol=ROUNDING)
    assert torch.allclose(part(env, step.final_obs, "last action"), action.clamp(-1.0, 1.0))


@pytest.mark.parametrize(
    ("robot", "torso", "message"),
    [
        (str(gymnasium_file("walker2d")), "trunk", "'walker2d' has no body named 'trunk'; it has: world, torso, thigh"),
        (PENDULUM, "bob", "has no actuators: load it with motors=Motor"),
        (SERVO_ARM, "upper", "actuator 'speed' has no control range .* give it a ctrlrange"),
    ],
)
def test_robots_that_cannot_run_are_refused(robot: str, torso: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        RobotTask(model=load_model(robot), torso=torso)


def branching(world: World, action: Action) -> Real:
    return 1.0 if world.position("torso").z > 1.0 else 0.0  # pyright: ignore[reportGeneralTypeIssues] - the mistake


@pytest.mark.parametrize(
    ("sense", "message"),
    [
        (lambda world, action: None, r"'mine' must give numbers .* got NoneType"),
        (lambda world, action: "high", r"'mine' must give numbers .* got str"),
        (lambda world, action: torch.zeros(3), r"'mine' must give numbers .* got Tensor"),
        (lambda world, action: world.rotation("torso"), r"'mine' must give numbers .* got Mat3"),
        (lambda world, action: world.position("torso").z > 1.0, r"'mine' must give numbers .* got Condition"),
        (lambda world, action: world.position("tail"), "no body or site named 'tail'; it has: foot"),
        (branching, "a traced comparison has no truth value"),
    ],
)
def test_senses_that_return_nonsense_are_named(sense: Any, message: str) -> None:  # noqa: ANN401
    task = planar("walker2d")
    with pytest.raises(TraceError, match=message):
        ahac.make(replace(task, observation={**task.observation, "mine": sense}), num_envs=2)


def test_a_term_must_be_a_scalar() -> None:
    task = planar("walker2d")
    speed: Any = lambda world, action: world.velocity("torso")  # noqa: E731
    with pytest.raises(TraceError, match=r"'mine' must give numbers .* got Vec3"):
        ahac.make(replace(task, reward={"mine": speed}), num_envs=2)


@pytest.mark.parametrize("parts", [{}, {"mine": 3.0}, [rewards.action_l2()]])
def test_parts_must_be_functions_by_name(parts: Any) -> None:  # noqa: ANN401
    task = planar("walker2d")
    with pytest.raises(InputError, match=r"reward .*must .*functions? of \(world, action\)"):
        Task(name="mine", model=task.model, observation=task.observation, reward=parts, reset=task.reset)


@pytest.mark.parametrize(
    ("start", "error", "message"),
    [
        (lambda model, draw: (model.rest_q, [0.0]), TraceError, "9 positions and 9 velocities, got 9 and 1"),
        (lambda model, draw: (model.rest_q[:3], [0.0] * 9), TraceError, "9 positions .* got 3 and 9"),
        (NoisyReset(keyframe="home"), InputError, "model 'walker2d' has no keyframe 'home'; it has: none"),
    ],
)
def test_starts_of_the_wrong_size_are_refused(start: ResetFn, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ahac.make(replace(planar("walker2d"), reset=start), num_envs=2)


def test_an_end_of_ones_own_must_be_a_scalar() -> None:
    """A comparison reads well, but the episode goes on while the answer is not negative."""
    compared: Any = lambda world: world.position("torso").z > 0.8  # noqa: E731
    with pytest.raises(TraceError, match="alive"):
        ahac.make(replace(planar("walker2d"), alive=compared), num_envs=2)


def test_variations_of_a_robot_task_mean_what_they_say() -> None:
    task = replace(planar("walker2d"), terminate_below=0.8)
    assert replace(task, terminate_below=None).alive is None

    def alive(world: World) -> Real:
        return world.position("foot").z

    assert replace(planar("walker2d"), alive=alive).alive is alive
    with pytest.raises(InputError, match="alive"):
        replace(task, alive=alive)


def test_what_is_left_out_follows_the_torso() -> None:
    other = replace(planar("walker2d"), torso="foot")
    env = ahac.make(replace(other, reset=NoisyReset(keyframe=None)), num_envs=2)
    feet = env.sim.poses(env.state.q).position[:, list(env.task.model.bodies).index("foot"), 2]
    assert torch.allclose(part(env, env.obs, "height")[:, 0], feet, atol=ROUNDING)


def test_a_model_must_be_loaded_first() -> None:
    path: Any = gymnasium_file("walker2d")
    with pytest.raises(InputError, match="model must be a Model from load_model, got"):
        RobotTask(model=path, torso="torso")


@pytest.mark.parametrize("noise", [-0.1, float("nan"), "wide"])
def test_noise_is_a_number_of_at_least_zero(noise: Any) -> None:  # noqa: ANN401
    with pytest.raises(InputError, match="joint_position"):
        NoisyReset(joint_position=noise)
