"""Bundled steps: the mean of branches in hard contact, the plain step elsewhere, and its gradient."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ahac.core.bundle import BundleConfig
from ahac.core.env import Step
from ahac.core.errors import InputError
from ahac.envs import Task, VecEnv, bundle, make
from ahac.envs.bundle import BundledSimulator
from ahac.sim import JointKind, Simulator, State, load_model
from ahac.sim.tangent import normalize_quaternions
from support.episodes import OUTCOMES, change, random_actions, set_time_left
from support.marks import keep
from support.robots import FREE_SPHERE, mjcf
from support.standing import MASS, standing_env, standing_task

WORLDS = 12
CONFIG = BundleConfig(branches=4)
SILENT = BundleConfig(branches=4, position_noise=1e-30, velocity_noise=1e-30)
"""Noise that rounding removes."""
GRAVITY = 9.81
ROUNDING = 1e-11
"""Relative to the largest number; the same formula of float64 numbers in another order, through a stiff step."""
EPS = (1e-4, 1e-5, 1e-6, 1e-7)
"""A difference across a kink is off; a smaller eps avoids the kink, with a larger rounding error."""
DIFFERENCED = 1e-6
"""Relative, at the best eps. Measured: 8e-8."""
SETTLED = 0.02
"""By which the load of a robot at rest may differ from its weight."""


@pytest.fixture(scope="module", params=keep(1, ["implicit", "explicit"]))
def made(request: pytest.FixtureRequest, device: torch.device) -> VecEnv:
    return standing_env(WORLDS, device, integrator=request.param, substeps=16)


@pytest.fixture
def env(made: VecEnv) -> VecEnv:
    """Robots on the ground and above it."""
    made.reset(seed=1)
    return made


def sim_of(env: VecEnv) -> BundledSimulator:
    assert isinstance(env.sim, BundledSimulator)
    return env.sim


def taken(env: VecEnv, config: BundleConfig | None, steps: int = 1) -> tuple[list[Step], Tensor]:
    """Return steps and the gradient of what they lead to by their actions; restore the environment."""
    saved = env.state_dict()
    env.detach()
    actions = random_actions(env, steps, seed=3, bound=0.9).requires_grad_()
    done = [env.step(action) if config is None else env.bundled_step(action, config) for action in actions]
    total = sum((step.reward + step.final_obs.sum(dim=-1) for step in done), torch.zeros_like(done[0].reward))
    (gradient,) = torch.autograd.grad(total.sum(), actions)
    env.load_state_dict(saved)
    return done, gradient


def flags(step: Step) -> Tensor:
    assert step.bundled is not None
    assert 0 < step.bundled.sum() < len(step.bundled), "some worlds are in hard contact, others are not"
    return step.bundled


def normal(state: Tensor, device: torch.device) -> Callable[[int], Tensor]:
    """Return a function that draws [WORLDS, k] normal numbers, from a generator in this state."""
    generator = torch.Generator(device)
    generator.set_state(state)
    return lambda k: torch.randn(WORLDS, k, generator=generator, dtype=torch.float64, device=device)


def close(actual: Tensor, expected: Tensor, tolerance: float = ROUNDING) -> bool:
    return bool((actual - expected).abs().max() <= tolerance * expected.abs().max())


# --------------------------------------------------------------------------------------------- where there are branches


def test_without_branches_a_step_is_the_plain_one(env: VecEnv) -> None:
    before = env.state_dict()
    (plain,), gradient = taken(env, None)
    (off,), other = taken(env, BundleConfig())
    assert off.bundled is None
    assert all(torch.equal(getattr(off, name), getattr(plain, name)) for name in OUTCOMES)
    assert torch.equal(other, gradient)
    env.bundled_step(random_actions(env, 1, seed=3)[0], BundleConfig())
    assert torch.equal(env.state_dict()["probe_generator"], before["probe_generator"]), "nothing was drawn"


def test_worlds_below_the_load_take_the_plain_step_bit_by_bit(env: VecEnv) -> None:
    (plain,), gradient = taken(env, None)
    (step,), bundled_gradient = taken(env, CONFIG)
    loaded = flags(step)
    for name in OUTCOMES:
        assert torch.equal(getattr(step, name)[~loaded], getattr(plain, name)[~loaded]), name
    assert torch.equal(step.next_state.q[~loaded], plain.next_state.q[~loaded])
    assert torch.equal(bundled_gradient[:, ~loaded], gradient[:, ~loaded])
    assert ((step.next_state.v - plain.next_state.v)[loaded].abs().amax(dim=-1) > 1e-6).all()
    assert ((bundled_gradient - gradient)[:, loaded].abs().amax(dim=(0, -1)) > 1e-9).all()


def test_the_load_is_the_vertical_contact_force_over_the_weight(env: VecEnv) -> None:
    sim = sim_of(env)
    force = sim.contacts(env.state).force[..., 2].sum(dim=-1)
    assert close(sim.load(env.state), force / (MASS * GRAVITY))
    threshold = float(sim.load(env.state).sort().values[-3:-1].mean())  # between the second and the third
    step = env.bundled_step(random_actions(env, 1, seed=3)[0], BundleConfig(branches=2, load=threshold))
    assert step.bundled is not None
    assert step.bundled.sum() == 2


def test_a_robot_at_rest_has_a_load_of_one(device: torch.device) -> None:
    env = standing_env(1, device)
    sim = sim_of(env)
    rest = state = sim.rest_state()
    memory, *context = (rest.q.new_zeros(1, size) for size in (2, *sim.context.values()))
    for _ in range(100):
        end = sim.step(state, memory=memory, context=dict(zip(sim.context, context, strict=True)))
        # Only the height moves, so that the robot does not topple.
        q, v = rest.q.clone(), rest.v.clone()
        q[:, 2], v[:, 2] = end.q[:, 2], end.v[:, 2]
        state = State(q, v)
    assert sim.load(state).item() == pytest.approx(1.0, abs=SETTLED)


# ------------------------------------------------------------------------------------------------- branches and means


def test_without_noise_the_mean_is_the_plain_step(env: VecEnv) -> None:
    plain, gradient = taken(env, None, steps=3)
    steps, bundled_gradient = taken(env, SILENT, steps=3)
    flags(steps[0])
    for step, expected in zip(steps, plain, strict=True):
        assert all(close(getattr(step, name).double(), getattr(expected, name).double()) for name in OUTCOMES[:3])
        assert torch.equal(step.done, expected.done)
        assert close(step.next_state.q, expected.next_state.q)
    assert close(bundled_gradient, gradient)


def test_episodes_end_and_begin_as_in_plain_steps(env: VecEnv) -> None:
    set_time_left(env, slice(None), 1)
    (plain,), _ = taken(env, None)
    (step,), _ = taken(env, SILENT)
    flags(step)
    assert step.truncated.all()
    assert close(step.obs, plain.obs)
    assert close(step.final_obs, plain.final_obs)


def test_offsets_come_in_pairs_and_leave_the_base_alone(env: VecEnv) -> None:
    sim = sim_of(env)
    config = BundleConfig(branches=400, position_noise=0.02, velocity_noise=0.05)
    offsets = sim._offsets(config, normal(env.state_dict()["probe_generator"], env.spec.device))
    assert offsets.shape == (400, WORLDS, 2, sim.model.nv)
    assert torch.equal(offsets[:200], -offsets[200:])
    assert not offsets[..., :6].any()
    deviation = offsets[:200, ..., 6:].std(dim=(0, 1)).mean(dim=-1)
    assert deviation.tolist() == pytest.approx([0.02, 0.05], rel=0.05)  # of 2400 numbers in each of four coordinates


def test_a_bundled_step_is_the_mean_of_its_branches(env: VecEnv) -> None:
    """Each branch as a plain step from its own start; linear coordinates are averaged as they are."""
    sim = sim_of(env)
    saved = env.state_dict()
    action = random_actions(env, 1, seed=3, bound=0.9)[0]
    offsets = sim._offsets(CONFIG, normal(saved["probe_generator"], env.spec.device))
    with torch.no_grad():
        step = env.bundled_step(action, CONFIG)
    loaded, ends = flags(step), []
    for offset in offsets:
        env.load_state_dict(saved)
        positions, velocities = offset.unbind(dim=1)

        def start(state: dict[str, Tensor], positions: Tensor = positions, velocities: Tensor = velocities) -> None:
            state["v"] += velocities
            state["q"][:, 7] += positions[:, 6]
            w, x, y, z = state["q"][:, 8:].unbind(dim=-1)
            a, b, c = 0.5 * positions[:, 7:].T
            state["q"][:, 8:] += torch.stack(
                [-x * a - y * b - z * c, w * a + y * c - z * b, w * b + z * a - x * c, w * c + x * b - y * a], dim=-1
            )

        change(env, start)
        with torch.no_grad():
            ends.append(env.step(action).next_state)
    env.load_state_dict(saved)
    for name in ("v", "act"):
        expected = torch.stack([getattr(end, name) for end in ends]).mean(dim=0)
        assert close(getattr(step.next_state, name)[loaded], expected[loaded]), name
    mean = torch.stack([end.q for end in ends]).mean(dim=0)
    for quaternion in (slice(3, 7), slice(8, 12)):
        mean[:, quaternion] /= mean[:, quaternion].norm(dim=-1, keepdim=True)
    assert close(step.next_state.q[loaded], mean[loaded])
    assert close(step.final_obs[loaded, : mean.shape[-1]], mean[loaded])


def test_quaternions_of_the_mean_have_length_one(env: VecEnv) -> None:
    (step,), _ = taken(env, BundleConfig(branches=2, position_noise=0.5, velocity_noise=3.0))
    q = step.next_state.q[flags(step)]
    for joint in env.sim.model.joints:
        if joint.kind is JointKind.BALL:
            assert (q[:, joint.q : joint.q + 4].norm(dim=-1) - 1.0).abs().max() < ROUNDING


def test_masked_branches_that_diverge_leave_other_worlds_alone(env: VecEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "_rows", lambda loaded: None)
    (plain,), gradient = taken(env, None)
    (step,), other = taken(env, BundleConfig(branches=2, velocity_noise=1e30))
    loaded = flags(step)
    assert torch.equal(step.final_obs[~loaded], plain.final_obs[~loaded])
    assert torch.equal(other[:, ~loaded], gradient[:, ~loaded])


def test_a_masked_step_equals_one_of_selected_worlds(env: VecEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """On CUDA all worlds have branches, and a mask selects."""
    steps, gradient = taken(env, CONFIG, steps=3)
    monkeypatch.setattr(bundle, "_rows", lambda loaded: None)
    masked, other = taken(env, CONFIG, steps=3)
    for one, expected in zip(masked, steps, strict=True):
        assert one.bundled is not None
        assert expected.bundled is not None
        assert torch.equal(one.bundled, expected.bundled)
        assert all(close(getattr(one, name).double(), getattr(expected, name).double()) for name in OUTCOMES[:3])
    assert close(other, gradient)


# ---------------------------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("masked", [False, True])
def test_the_gradient_is_that_of_the_bundled_step(env: VecEnv, masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By state and actions, through two steps with the same noise, along random directions."""
    if masked:
        monkeypatch.setattr(bundle, "_rows", lambda loaded: None)
    saved = env.state_dict()
    draw = normal(saved["generator"], env.spec.device)
    actions = random_actions(env, 2, seed=3, bound=0.5)
    inputs = [saved["q"], saved["v"], saved["memory"], saved["act"], *actions]
    directions = [draw(x.shape[-1]) for x in inputs]
    weights = draw(env.spec.obs_size)

    def objective(q: Tensor, v: Tensor, memory: Tensor, act: Tensor, *actions: Tensor) -> Tensor:
        env.load_state_dict(saved)
        env._buffers |= {"q": q, "v": v, "memory": memory, "act": act}
        steps = [env.bundled_step(action, CONFIG) for action in actions]
        flags(steps[0])
        return (weights * steps[-1].final_obs).sum(dim=-1) + steps[0].reward + steps[1].reward

    leaves = [x.clone().requires_grad_() for x in inputs]
    gradients = torch.autograd.grad(objective(*leaves).sum(), leaves)
    slope = sum((g * d).flatten(1).sum(dim=-1) for g, d in zip(gradients, directions, strict=True))
    errors = []
    for eps in EPS:
        with torch.no_grad():
            ends = [objective(*(x + s * eps * d for x, d in zip(inputs, directions, strict=True))) for s in (1, -1)]
        errors.append(((ends[0] - ends[1]) / (2.0 * eps) - slope).abs())
    env.load_state_dict(saved)
    assert isinstance(slope, Tensor)
    assert (torch.stack(errors).amin(dim=0) <= DIFFERENCED * slope.abs().clamp(min=1.0)).all()


TWO_LEGS = mjcf(
    """<geom name="floor" type="plane" size="1 1 1" conaffinity="1"/>
<body name="torso" pos="0 0 1"><joint name="height" type="slide" axis="0 0 1"/><geom type="sphere" size="0.1" mass="2"/>
  <body name="left" pos="0 0.2 -0.9"><joint name="left" type="slide" axis="0 0 1"/>
    <geom type="sphere" size="0.1" mass="1"/></body>
  <body name="right" pos="0 -0.2 -0.9"><joint name="right" type="slide" axis="0 0 1"/>
    <geom type="sphere" size="0.1" mass="1"/></body></body>""",
    rest='<actuator><motor name="push" joint="left" ctrlrange="-1 1"/></actuator>',
)
"""Three slides. In the reference pose, both feet touch the ground without pressing on it."""


def test_a_foot_at_the_edge_of_contact_has_a_gradient_of_less_variance(device: torch.device) -> None:
    """Its plain gradient is that of contact or that of flight; the mean of branches is in between in all worlds."""
    worlds = 200
    task = Task(
        name="two legs",
        model=load_model(TWO_LEGS),
        observation={"v": lambda world, action: world.v},
        reward={"none": lambda world, action: 0.0 * world.q[0]},
        reset=lambda model, draw: ([0.0, -0.02, draw(-0.001, 0.001)], [0.0] * 3),
        integrator="explicit",
        dt=1e-3,
        substeps=1,
    )
    env = VecEnv(task, num_envs=worlds, device=device, dtype=torch.float64, seed=4)
    action = torch.zeros(worlds, 1, dtype=torch.float64, device=device)
    gradients = []
    for config in (BundleConfig(), BundleConfig(branches=8, position_noise=0.01)):
        env.reset(seed=4)
        start = env._buffers["q"] = env.state.q.clone().requires_grad_()
        step = env.bundled_step(action, config)
        gradients.append(torch.autograd.grad(step.next_state.v[:, 2].sum(), start)[0][:, 2])
    assert step.bundled is not None
    assert step.bundled.all(), "all robots stand on their left foot"
    plain, bundled = gradients
    assert ((plain > 0.1 * plain.min()).double().mean() - 0.5).abs() < 0.1, "half of the right feet are in the air"
    # Pairs cancel: where one branch is in the air, its opposite is in contact, up to the height of the foot itself.
    assert bundled.var() < 0.25 * plain.var()
    assert bundled.mean().item() == pytest.approx(plain.mean().item(), rel=0.1)


def test_a_diverged_branch_ends_the_episode_without_a_gradient(env: VecEnv) -> None:
    (step,), _ = taken(env, CONFIG)
    world = int(flags(step).nonzero()[0])

    def speed_up(state: dict[str, Tensor]) -> None:
        state["v"][world] = 1e30

    change(env, speed_up)
    (step,), gradient = taken(env, CONFIG)
    assert step.bundled is not None
    assert step.diverged.tolist() == [i == world for i in range(WORLDS)]
    assert gradient.isfinite().all()
    assert not gradient[:, world].any()


def test_quaternions_that_are_not_finite_leave_a_zero_gradient_zero() -> None:
    model = load_model(FREE_SPHERE)
    q = torch.ones(3, 7, dtype=torch.float64)
    q[1, 4] = torch.nan
    q[2, 3:] = 0.0
    q.requires_grad_()
    out = normalize_quaternions(model, q)
    assert out[0, 3:].norm().item() == pytest.approx(1.0)
    (gradient,) = torch.autograd.grad(out[0].sum(), q)
    assert gradient.isfinite().all()


# -------------------------------------------------------------------------------------------------------------- state


def test_a_saved_environment_repeats_its_branches(env: VecEnv) -> None:
    actions = random_actions(env, 4, seed=6)
    with torch.no_grad():
        env.bundled_step(actions[0], CONFIG)
        saved = env.state_dict()
        expected = [env.bundled_step(action, CONFIG).obs for action in actions[1:]]
        env.load_state_dict(saved)
        again = [env.bundled_step(action, CONFIG).obs for action in actions[1:]]
        other = [env.bundled_step(action, CONFIG).obs for action in actions[1:]]
    assert all(map(torch.equal, again, expected))
    assert not torch.equal(other[0], expected[0])


def test_branches_do_not_change_what_the_task_draws(env: VecEnv) -> None:
    before = env.state_dict()["generator"]
    plain = env.state_dict()
    with torch.no_grad():
        env.step(random_actions(env, 1, seed=3)[0])
        after = env.state_dict()["generator"]
        env.load_state_dict(plain)
        env.bundled_step(random_actions(env, 1, seed=3)[0], CONFIG)
    assert torch.equal(env.state_dict()["generator"], after)
    assert not torch.equal(before, after), "observations draw noise"


# ----------------------------------------------------------------------------------------------------------- refusals


def test_robots_without_contacts_or_limbs_are_refused(device: torch.device) -> None:
    cartpole = make("cartpole", num_envs=1, device=device)
    with pytest.raises(InputError, match=r"'.*' has no contacts; set bundle\.branches to 0"):
        cartpole.bundled_step(torch.zeros(1, 1, device=device), CONFIG)
    ball = load_model(FREE_SPHERE)
    sphere = BundledSimulator(ball, num_worlds=1, dt=0.01, substeps=1, device=device)
    with pytest.raises(InputError, match="no joints but those of its base"):
        bundle.require_bundling(sphere)
    with pytest.raises(InputError, match="a Simulator has no bundled steps"):
        bundle.require_bundling(Simulator(ball, num_worlds=1, dt=0.01, substeps=1, device=device))


def test_a_robot_without_weight_is_refused(device: torch.device) -> None:
    floating = standing_task()
    sim = BundledSimulator(floating.model, num_worlds=1, dt=0.01, substeps=1, device=device)
    sim.model = sim.model.__class__(**{**vars(sim.model), "gravity": (0.0, 0.0, 0.0)})
    with pytest.raises(InputError, match="gravity is zero"):
        bundle.require_bundling(sim)
