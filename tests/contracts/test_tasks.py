"""Contracts that every task satisfies: sizes, seeding, gradients, and independence of worlds.

All tests of a task share one environment in float64, and so one forward and one adjoint kernel.
"""

from collections.abc import Callable, Iterator
from importlib.resources import as_file, files

import pytest
import torch
from torch import Tensor

from ahac.core.env import Step
from ahac.envs import NoisyReset, VecEnv, make, tasks
from ahac.sim import Joint, JointKind
from support.episodes import OUTCOMES, assert_same, change, outcomes, random_actions, set_time_left
from support.numeric_physics import Numeric

SIZES = {
    "hopper": (11, 3, 16, 1000),
    "ant": (37, 8, 16, 1000),
    "anymal": (49, 12, 16, 1000),
    "humanoid": (76, 21, 48, 1000),
    "snu_humanoid": (53, 152, 48, 1000),
    "go1": (53, 12, 4, 1000),
    "go2": (53, 12, 4, 1000),
    "g1": (228, 29, 4, 1000),
    "half_cheetah": (17, 6, 16, 1000),
    "cartpole": (5, 1, 4, 240),
    "double_pendulum": (6, 1, 4, 240),
}
"""Sizes of observation and action, substeps, episode steps."""

WITHOUT_GROUND = ("cartpole", "double_pendulum")
LAST_ACTION = "last action"
WALKING = ("go1", "go2", "g1")
"""Tasks of `walk`: 50 steps per second instead of 60."""
OBSERVES_ITS_ACTION = ("ant", "anymal", "humanoid", *WALKING)

TASKS = tuple(tasks())
"""Tasks before any test registers more."""
REPEATED = ("humanoid", "snu_humanoid", "anymal", "half_cheetah", "double_pendulum", "go2", "g1")
"""Run only by `make test-all`: the others cover the same, and these kernels take 15 to 60 s to compile."""
WORLDS = 64
"""Several SIMD blocks."""

ROUNDING = 1e-12
"""Relative to the numbers added up; the same float64 sum in another order."""

SAMPLES = 20
"""Times 64 worlds: 1280 resets."""
REACHED = 0.95
"""Share of the noise bound. The probability that none of 1280 uniform numbers exceeds it is 1e-14 on each side."""
DEVIATIONS = 6.0
"""Standard deviations by which a mean or a correlation may differ from zero: a probability of 2e-9 each."""

FREE_ROOT = 3
"""Index of the quaternion of a free root, after three slides."""

HORIZON = 8
STEPS_BEFORE = 40
"""Enough for every robot to land on its feet, and for some to fall over, so that the horizon includes resets."""
TOUCHING = 0.25
"""Minimum share of worlds that touch the ground by then."""
EPS = (1e-4, 1e-5, 1e-6, 1e-7)
"""A difference across a kink is off by up to 1e-3; a smaller eps avoids the kink, with a rounding error of 1e-8."""
GRADIENT_TOLERANCE = 1e-7
"""Relative to the gradient norm, at a world's best eps. At most 4e-9, usually 1e-11; a kink gives 1e-6 or more."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.extended) if name in REPEATED else name for name in TASKS],
)
def env(request: pytest.FixtureRequest, device: torch.device) -> VecEnv:
    return make(request.param, num_envs=WORLDS, dtype=torch.float64, device=device)


@pytest.fixture
def busy(env: VecEnv) -> VecEnv:
    """An environment some steps into its episodes; every other world is truncated within the next seven steps."""
    env.reset(seed=11)
    outcomes(env, random_actions(env, 10, seed=12))
    set_time_left(env, slice(0, None, 2), 1 + torch.arange(WORLDS // 2) % 7)
    return env


def test_the_table_of_sizes_covers_all_tasks() -> None:
    assert set(SIZES) == set(TASKS)


def test_sizes_are_the_declared_ones(env: VecEnv, device: torch.device) -> None:
    spec = env.spec
    assert (spec.obs_size, spec.action_size, env.sim.substeps, spec.episode_steps) == SIZES[spec.name]
    dt = 1 / 50 if spec.name in WALKING else 1 / 60
    assert (spec.dt, spec.num_envs, spec.dtype, spec.device.type) == (dt, WORLDS, torch.float64, device.type)
    step = env.step(random_actions(env, 1, seed=1)[0])
    wide = {"obs": spec.obs_size, "final_obs": spec.obs_size, "reward_terms": len(env.task.reward)}
    for name in OUTCOMES:
        value = getattr(step, name)
        assert value.shape == ((WORLDS, wide[name]) if name in wide else (WORLDS,)), name
        assert value.dtype == (torch.bool if name in ("terminated", "truncated", "diverged") else spec.dtype), name
    assert env.reset().shape == env.obs.shape == (WORLDS, spec.obs_size)
    assert sum(env.obs_layout.values()) == spec.obs_size


def test_random_actions_lead_to_finite_numbers(env: VecEnv) -> None:
    env.reset(seed=2)
    results = outcomes(env, random_actions(env, 200, seed=3))
    for name, values in results.items():
        assert torch.isfinite(values).all(), name
    assert not results["diverged"].any()


def test_same_seed_gives_the_same_bits_and_another_seed_other_ones(env: VecEnv) -> None:
    actions = random_actions(env, 60, seed=4)

    def run(seed: int) -> dict[str, Tensor]:
        first = env.reset(seed)
        set_time_left(env, slice(0, None, 3), 20)
        return {"first": first, **outcomes(env, actions)}

    found = run(5)
    again = run(5)
    other = run(6)
    assert_same(again, found)
    assert found["truncated"].any(), "no episode ended: resets inside steps were not compared"
    for name in ("first", "obs", "reward", "q", "v"):
        assert not torch.equal(found[name], other[name]), name


def explicit_resets(env: VecEnv) -> Iterator[None]:
    for _ in range(SAMPLES):
        env.reset()
        yield


def resets_inside_steps(env: VecEnv) -> Iterator[None]:
    for action in random_actions(env, SAMPLES, seed=7):
        set_time_left(env, slice(None), 1)
        assert env.step(action).done.all()
        yield


def turn(rest: Tensor, q: Tensor) -> Tensor:
    """Compute conjugate(rest) ⊗ q, [samples, 4]: the rotation from a resting ball joint [4] to q [samples, 4]."""
    side = torch.linalg.cross(rest[1:].expand(len(q), 3), q[:, 1:])
    return torch.cat([(q @ rest)[:, None], rest[0] * q[:, 1:] - q[:, :1] * rest[1:] - side], dim=-1)


def noise_of_joint(reset: NoisyReset, joint: Joint, rest: Tensor, q: Tensor) -> tuple[Tensor, float]:
    """Return a joint's offsets from its pose, [samples, k], and the documented bound."""
    if joint.kind is not JointKind.BALL:
        bound = reset.root_position if joint.kind is JointKind.SLIDE else reset.joint_position
        return (q - rest)[:, joint.q, None], bound
    rest, q = (x[..., joint.q : joint.q + 4] for x in (rest, q))
    assert (q.norm(dim=-1) - 1.0).abs().max() < ROUNDING
    turned = turn(rest, q)
    if joint.q == FREE_ROOT:
        return 2.0 * torch.atan2(turned[:, 1:].norm(dim=-1), turned[:, 0])[:, None], reset.root_rotation
    return turned[:, 1:] / turned[:, :1], reset.joint_position


def sampled(env: VecEnv, resets: Callable[[VecEnv], Iterator[None]]) -> tuple[Tensor, Tensor]:
    """Collect the initial positions and velocities of many episodes."""
    env.reset(seed=8)
    states = [(env.state.q, env.state.v) for _ in resets(env)]
    q, v = (torch.cat(column).cpu() for column in zip(*states, strict=True))
    assert len(q) == SAMPLES * WORLDS
    return q, v


def assert_independent(columns: Tensor) -> None:
    """Assert that columns [samples, k], uniform in ±1 or narrower, have zero mean and are uncorrelated."""
    assert columns.mean(dim=0).abs().max() < DEVIATIONS * (3 * len(columns)) ** -0.5
    correlation = torch.corrcoef(columns.T) - torch.eye(columns.shape[1], dtype=columns.dtype)
    assert correlation.abs().max() < DEVIATIONS * len(columns) ** -0.5


@pytest.mark.parametrize("resets", [explicit_resets, resets_inside_steps])
def test_episodes_begin_within_the_documented_noise(env: VecEnv, resets: Callable[[VecEnv], Iterator[None]]) -> None:
    q, v = sampled(env, resets)
    reset = env.task.reset
    assert isinstance(reset, NoisyReset)
    assert reset.keyframe is not None
    rest_q = torch.tensor(reset.stance(env.task.model), dtype=q.dtype)
    rest_v = torch.tensor(env.task.model.keyframes[reset.keyframe].v, dtype=q.dtype)
    noise = [noise_of_joint(reset, joint, rest_q, q) for joint in env.task.model.joints]
    for offset, bound in noise:
        assert bound or (offset == 0.0).all()
    noise = [(offset, bound) for offset, bound in noise if bound]
    columns = torch.cat([offset / bound for offset, bound in [*noise, (v - rest_v, reset.velocity)]], dim=-1)
    assert columns.abs().max() < 1.0 + ROUNDING
    assert columns.max(dim=0).values.min() > REACHED
    # The angle of a random rotation has no sign; all other noise is two-sided.
    free = any(joint.kind is JointKind.BALL and joint.q == FREE_ROOT for joint in env.task.model.joints)
    angle = FREE_ROOT if reset.root_position else 0
    signed = torch.cat([columns[:, :angle], columns[:, angle + 1 :]], dim=-1) if free else columns
    assert signed.min(dim=0).values.max() < -REACHED
    assert_independent(signed)
    if free:
        assert_independent(turn(rest_q[FREE_ROOT : FREE_ROOT + 4], q[:, FREE_ROOT : FREE_ROOT + 4])[:, 1:])


def test_a_saved_state_resumes_bit_exactly(busy: VecEnv, device: torch.device) -> None:
    actions = random_actions(busy, 9, seed=13)
    saved = busy.state_dict()
    copy = {name: value.clone() for name, value in saved.items()}
    expected = outcomes(busy, actions)
    assert expected["truncated"].sum() >= WORLDS // 2
    assert_same(saved, copy)
    busy.load_state_dict(saved)
    assert torch.equal(busy.obs, saved["obs"])
    assert_same(outcomes(busy, actions), expected)
    other = make(busy.spec.name, num_envs=WORLDS, dtype=torch.float64, device=device, seed=99)
    other.load_state_dict(saved)
    assert_same(outcomes(other, actions), expected)
    assert_same(other.state_dict(), busy.state_dict())


def test_permuted_worlds_give_permuted_outcomes(busy: VecEnv) -> None:
    order = torch.randperm(WORLDS, generator=torch.Generator().manual_seed(14)).to(busy.spec.device)

    def permuted(values: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: value if "generator" in name else value[order] for name, value in values.items()}

    for actions in random_actions(busy, 8, seed=15)[:, None]:
        before = busy.state_dict()
        expected = outcomes(busy, actions)
        after = busy.state_dict()
        busy.load_state_dict(permuted(before))
        permuted_outcomes = outcomes(busy, actions[:, order])
        assert_same(permuted_outcomes, {name: value[:, order] for name, value in expected.items()})
        for name in ("q", "v", "obs", "clock"):
            assert torch.equal(busy.state_dict()[name], after[name][order]), name
        busy.load_state_dict(after)


OFTEN_ZERO = {"joint_limits", "feet_apart", "legs_apart"}
"""Reward terms that are zero within bounds; tests/unit/envs has states beyond them."""


def test_reward_is_the_sum_of_its_terms(busy: VecEnv) -> None:
    found = outcomes(busy, random_actions(busy, 8, seed=16))
    terms = found["reward_terms"]
    assert terms.shape[-1] == len(busy.task.reward)
    largest = dict(zip(busy.task.reward, terms.abs().amax(dim=(0, 1)).tolist(), strict=True))
    assert all(largest[name] > 0.0 for name in largest if name not in OFTEN_ZERO), largest
    assert ((terms.sum(dim=-1) - found["reward"]).abs() < ROUNDING * terms.abs().sum(dim=-1)).all()


def test_obs_is_final_obs_unless_the_episode_ended(busy: VecEnv) -> None:
    found = outcomes(busy, random_actions(busy, 8, seed=17))
    done = found["terminated"] | found["truncated"]
    assert done.any()
    same = (found["obs"] == found["final_obs"]).all(dim=-1)
    assert torch.equal(same, ~done)


@pytest.mark.parametrize("recorded", [False, True], ids=["without gradient", "with gradient"])
def test_the_observed_last_action_is_the_clipped_one(busy: VecEnv, recorded: bool) -> None:
    if busy.spec.name not in OBSERVES_ITS_ACTION:
        assert LAST_ACTION not in busy.obs_layout
        return
    first = sum(list(busy.obs_layout.values())[: list(busy.obs_layout).index(LAST_ACTION)])
    part = slice(first, first + busy.obs_layout[LAST_ACTION])
    assert busy.obs_layout[LAST_ACTION] == busy.spec.action_size
    for action in random_actions(busy, 4, seed=18, bound=1.5):
        step = busy.step(action.requires_grad_(recorded))
        assert step.obs.requires_grad is recorded
        assert step.done.any()
        assert torch.equal(step.final_obs[:, part], action.clamp(-1.0, 1.0))
        assert torch.equal(step.obs[~step.done][:, part], action[~step.done].clamp(-1.0, 1.0))
        assert (step.obs[step.done][:, part] == 0.0).all()
    assert (busy.reset()[:, part] == 0.0).all()


def touching(env: VecEnv) -> float:
    """Return the share of worlds in which something touches the ground."""
    with as_file(files("ahac.envs") / "assets" / f"{env.spec.name}.xml") as path:
        found = Numeric(path).contacts(env.state.q.cpu().numpy(), env.state.v.cpu().numpy())
    return float((found["depth"] > 0.0).any(axis=-1).mean())


def test_gradients_match_central_differences(env: VecEnv) -> None:
    env.reset(seed=21)
    outcomes(env, random_actions(env, STEPS_BEFORE, seed=22))
    assert env.spec.name in WITHOUT_GROUND or touching(env) > TOUCHING
    saved = env.state_dict()
    actions = random_actions(env, HORIZON, seed=23, bound=0.9)
    generator = torch.Generator().manual_seed(24)
    weights = torch.randn(env.spec.obs_size, generator=generator, dtype=torch.float64).to(env.spec.device)

    def losses(sequence: Tensor) -> Tensor:
        """Sum the rewards and a projection of the final observation, [N]."""
        env.load_state_dict(saved)
        steps: list[Step] = [env.step(action) for action in sequence]
        return sum((step.reward for step in steps), steps[-1].final_obs @ weights)

    (gradient,) = torch.autograd.grad(losses(actions.requires_grad_()).sum(), actions)
    norm = gradient.square().sum(dim=(0, 2)).sqrt()
    assert (norm > 0.0).all()
    for _ in range(2):
        direction = torch.randn(actions.shape, generator=generator, dtype=torch.float64).to(env.spec.device)
        direction /= direction.square().sum(dim=(0, 2), keepdim=True).sqrt()
        wanted = (gradient * direction).sum(dim=(0, 2))
        with torch.no_grad():
            pairs = [(losses(actions + eps * direction), losses(actions - eps * direction)) for eps in EPS]
        found = torch.stack([(up - down) / (2.0 * eps) for eps, (up, down) in zip(EPS, pairs, strict=True)])
        errors = ((found - wanted).abs() / norm).min(dim=0).values
        assert errors.max() < GRADIENT_TOLERANCE


def test_a_step_holds_its_states_before_and_after(busy: VecEnv) -> None:
    before = busy.state
    action = random_actions(busy, 1, seed=25)[0]
    step = busy.step(action)
    assert torch.equal(step.state.q, before.q)
    assert torch.equal(step.state.v, before.v)
    assert torch.equal(step.action, action)
    for name in ("q", "v"):
        same = (getattr(busy.state, name) == getattr(step.next_state, name)).all(dim=-1)
        assert torch.equal(same, ~step.done), name


def test_clocks_count_steps_and_rewards_of_an_episode(busy: VecEnv) -> None:
    def restart(state: dict[str, Tensor]) -> None:
        state["clock"][1::2] = 0.0

    change(busy, restart)
    length, total = busy.state_dict()["clock"].unbind(dim=-1)
    for action in random_actions(busy, 8, seed=26):
        step = busy.step(action)
        length, total = length + 1.0, total + step.reward
        assert torch.equal(step.episode_length, length)
        assert torch.equal(step.episode_return, total)
        length, total = length * ~step.done, total * ~step.done
