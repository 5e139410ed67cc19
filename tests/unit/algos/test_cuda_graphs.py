"""CUDA graphs: captured iterations are bit-identical to eager ones, and never wait for the device."""

from dataclasses import replace
from functools import partial
from typing import TypeVar

import pytest
import torch
from torch import Tensor

from ahac.algos.algorithm import Algorithm
from ahac.algos.config import ShortHorizonConfig, UpdateConfig
from ahac.algos.ppo import PPO
from ahac.algos.recipes import PRESETS, recipe
from ahac.algos.registry import make_algorithm
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.bundle import BundleConfig
from ahac.envs import VecEnv, make
from ahac.runtime.cuda_graphs import GraphExecutor, make_executor
from support.remembering import remembering_task

pytestmark = pytest.mark.gpu

Learning = TypeVar("Learning", bound=Algorithm)
WORLDS = 64
CASES = [
    *(("hopper", algo, preset) for algo in ("ahac", "ahac1", "shac", "bptt") for preset in PRESETS),
    ("ant", "ahac", "default"),
    ("hopper", "ahac", "default-reused"),
    ("hopper", "shac", "default-mixed"),
    ("hopper", "sapo", "default"),
    ("hopper", "sapo", "default-mixed"),
    ("hopper", "shac", "default-bundled"),
    ("ant", "ahac", "default-bundled"),
]
CHANGES = {
    "reused": {"update": UpdateConfig(epochs=3, kl_coef=0.2)},
    "mixed": {"update": UpdateConfig(gradient="mixed")},
    "bundled": {"bundle": BundleConfig(branches=4, load=0.5)},
}


@pytest.fixture(scope="module")
def made() -> dict[str, VecEnv]:
    return {name: make(name, num_envs=WORLDS, device="cuda") for name in ("hopper", "ant")}


def small(config: ShortHorizonConfig) -> ShortHorizonConfig:
    """Use short rollouts of varying length."""
    horizon = replace(config.horizon, initial=6, min=4, max=12, speed=0.2)
    return replace(config, horizon=horizon)


def executed(algorithm: Learning, env: VecEnv, graphs: bool) -> Learning:
    """Return the algorithm with every iteration run through an executor."""
    executor = make_executor(env, [algorithm.generator], graphs)
    assert isinstance(executor, GraphExecutor) == graphs
    setattr(algorithm, "iterate", partial(executor.call, algorithm.iterate))  # noqa: B010 - a method
    return algorithm


def make_small_algorithm(env: VecEnv, algo: str, preset: str, graphs: bool) -> ShortHorizonActorCritic:
    name, _, change = preset.partition("-")
    config = small(recipe(env.spec.name, algo, name).algorithm)
    if change:
        config = replace(config, **CHANGES[change])
    return executed(ShortHorizonActorCritic(config, env.spec, seed=1), env, graphs)


def ppo(env: VecEnv, preset: str = "default", seed: int = 1, graphs: bool = True) -> PPO:
    config = replace(recipe("hopper", "ppo", preset).algorithm, steps_per_env=8)
    return executed(PPO(config, env.spec, seed=seed), env, graphs)


def train(one: ShortHorizonActorCritic, env: VecEnv, iterations: int) -> list[dict[str, float]]:
    return [dict(one.iterate(env, 0.05 * i).metrics) for i in range(iterations)]


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for name, value in expected.items():
        assert torch.equal(actual[name], value), name


@pytest.mark.parametrize(("task", "algo", "preset"), CASES)
def test_replayed_iterations_equal_eager_ones(made: dict[str, VecEnv], task: str, algo: str, preset: str) -> None:
    env, results = made[task], []
    for graphs in (False, True):
        env.reset(seed=3)
        one = make_small_algorithm(env, algo, preset, graphs)
        results.append((train(one, env, 12), one.state_dict(), env.state_dict()))
    (values, learned, worlds), (again, learned_again, worlds_again) = results
    assert again == values
    assert_same(learned_again, learned)
    assert_same(worlds_again, worlds)
    if algo == "ahac" and preset == "default":
        assert len({row["horizon"] for row in values}) > 1, "the horizon should have moved"


@pytest.mark.parametrize("preset", ["default", "released"])
def test_replayed_ppo_equals_eager_ppo(made: dict[str, VecEnv], preset: str) -> None:
    env, results = made["hopper"], []
    for graphs in (False, True):
        env.reset(seed=3)
        one = ppo(env, preset, graphs=graphs)
        values = [dict(one.iterate(env, 0.0).metrics) for _ in range(6)]
        results.append((values, one.state_dict(), env.state_dict()))
    (values, learned, worlds), (again, learned_again, worlds_again) = results
    assert again == values
    assert_same(learned_again, learned)
    assert_same(worlds_again, worlds)


def test_a_saved_ppo_resumes_bit_exactly(made: dict[str, VecEnv]) -> None:
    env = made["hopper"]
    env.reset(seed=3)
    one, other = (ppo(env, seed=seed) for seed in (1, 2))
    for _ in range(3):
        one.iterate(env, 0.0)
    saved, worlds = one.state_dict(), env.state_dict()
    expected = [dict(one.iterate(env, 0.0).metrics) for _ in range(4)]
    for _ in range(3):
        other.iterate(env, 0.0)
    other.load_state_dict(saved)
    env.load_state_dict(worlds)
    assert [dict(other.iterate(env, 0.0).metrics) for _ in range(4)] == expected
    assert_same(other.state_dict(), one.state_dict())


def test_the_policy_kernel_gives_the_gradient_of_torch(made: dict[str, VecEnv]) -> None:
    env, actual = made["ant"], []
    for by_torch in (False, True):
        env.reset(seed=3)
        one = make_small_algorithm(env, "shac", "default", graphs=False)
        assert one._policy is not one.actor
        if by_torch:
            one._policy = one.actor
        one._update_actor(one._roll_out(env, 4))
        actual.append(
            torch.cat([weight.grad.flatten() for weight in one.actor.parameters() if weight.grad is not None])
        )
    assert (actual[0] - actual[1]).norm() < 1e-3 * actual[1].norm()


def test_ppo_continues_after_a_non_finite_world(made: dict[str, VecEnv]) -> None:
    env = made["hopper"]
    env.reset(seed=3)
    one = ppo(env)
    for _ in range(3):
        one.iterate(env, 0.0)
    before, corrupted = one.state_dict(), env.state_dict()
    corrupted["obs"][5] = torch.nan
    env.load_state_dict(corrupted)
    report = one.iterate(env, 0.0)
    assert report.failure is not None
    del before["generator"]
    assert_same(one.state_dict(), before)
    for _ in range(3):
        assert one.iterate(env, 0.0).failure is None


@pytest.mark.parametrize("value", [torch.nan, 1e30])
@pytest.mark.parametrize("algo", ["ahac", "ppo", "sac", "svg", "fasttd3"])
def test_after_a_skipped_iteration_replays_equal_eager_iterations(
    made: dict[str, VecEnv], algo: str, value: float
) -> None:
    """Learned tensors are restored in place, so that graphs captured before stay valid."""
    env, results = made["hopper"], []
    settings = recipe("hopper", algo, "default").algorithm
    settings = small(settings) if algo == "ahac" else replace(settings, steps_per_env=8)
    if algo in ("sac", "svg", "fasttd3"):
        settings = replace(settings, learning_starts=WORLDS * 8, batch_size=64, buffer_size=4096)
    for graphs in (False, True):
        env.reset(seed=3)
        one = executed(make_algorithm(settings, env.spec, 1), env, graphs)
        values = [dict(one.iterate(env, 0.0).metrics) for _ in range(4)]
        before, corrupted = one.state_dict(), env.state_dict()
        corrupted["obs"][5] = value
        env.load_state_dict(corrupted)
        report = one.iterate(env, 0.0)
        assert report.failure is not None
        assert "observation of step 0 in world 5" in report.failure.message
        assert report.failure.worlds.nonzero().flatten().tolist() == [5]
        assert_same(one.state_dict(), {name: x for name, x in before.items() if name != "generator"})
        later = [one.iterate(env, 0.0) for _ in range(4)]
        assert all(report.failure is None for report in later)
        results.append((values + [dict(report.metrics) for report in later], one.state_dict(), env.state_dict()))
    (values, learned, worlds), (again, learned_again, worlds_again) = results
    assert again == values
    assert_same(learned_again, learned)
    assert_same(worlds_again, worlds)


@pytest.mark.parametrize("algo", ["ahac", "shac", "ppo", "sac", "svg", "fasttd3"])
def test_replayed_iterations_equal_eager_ones_with_two_observation_groups(algo: str) -> None:
    env = VecEnv(remembering_task(), num_envs=WORLDS, device="cuda")
    settings = recipe("hopper", algo, "default").algorithm
    settings = small(settings) if algo in ("ahac", "shac") else replace(settings, steps_per_env=8)
    if algo in ("sac", "svg", "fasttd3"):
        settings = replace(settings, learning_starts=WORLDS * 8, batch_size=64, buffer_size=4096)
    results = []
    for graphs in (False, True):
        env.reset(seed=3)
        one = executed(make_algorithm(settings, env.spec, 1), env, graphs)
        reports = [one.iterate(env, 0.05 * i) for i in range(8)]
        assert [report.failure for report in reports] == [None] * 8
        results.append(([dict(report.metrics) for report in reports], one.state_dict(), env.state_dict()))
    (values, learned, worlds), (again, learned_again, worlds_again) = results
    assert again == values
    assert_same(learned_again, learned)
    assert_same(worlds_again, worlds)
    assert learned["critic_normalizer.mean"].shape == (env.spec.critic_obs_size,)
    assert env.spec.critic_obs_size != env.spec.obs_size


def test_the_parts_of_an_iteration_are_the_same_as_without(made: dict[str, VecEnv]) -> None:
    one = make_small_algorithm(made["hopper"], "ahac", "default", graphs=True)
    for _ in range(3):
        assert set(one.iterate(made["hopper"], 0.0).seconds) == {"rollout", "gradient", "critic", "rest"}


def test_lasting_buffers_are_not_allocated_during_capture(made: dict[str, VecEnv]) -> None:
    """The first iteration skips the update, so the second, which is captured, is the first to fit the critic."""
    env, results = made["hopper"], []
    for graphs in (False, True):
        env.reset(seed=3)
        corrupted = env.state_dict()
        corrupted["obs"][5] = torch.nan
        env.load_state_dict(corrupted)
        one = make_small_algorithm(env, "ahac", "default", graphs)
        assert one.iterate(env, 0.0).failure is not None
        results.append((train(one, env, 6), one.state_dict()))
    (values, learned), (again, learned_again) = results
    assert again == values
    assert_same(learned_again, learned)


def test_a_saved_algorithm_resumes_bit_exactly(made: dict[str, VecEnv]) -> None:
    env = made["hopper"]
    env.reset(seed=3)
    one, other = (make_small_algorithm(env, "ahac", "default", graphs=True) for _ in range(2))
    train(one, env, 5)
    saved, worlds = one.state_dict(), env.state_dict()
    expected = train(one, env, 5)
    train(other, env, 3)
    for loaded in (other, one):  # graphs captured before stay valid
        loaded.load_state_dict(saved)
        env.load_state_dict(worlds)
        assert train(loaded, env, 5) == expected
    assert_same(other.state_dict(), one.state_dict())


def test_non_finite_worlds_change_nothing_and_are_reset(made: dict[str, VecEnv]) -> None:
    env = made["hopper"]
    env.reset(seed=3)
    one = make_small_algorithm(env, "shac", "default", graphs=True)
    train(one, env, 4)
    before = one.state_dict()
    corrupted = env.state_dict()
    corrupted["obs"][5] = torch.nan  # the policy's input
    env.load_state_dict(corrupted)
    report = one.iterate(env, 0.2)
    assert report.failure is not None
    assert report.failure.worlds.nonzero().flatten().tolist() == [5]
    after = one.state_dict()
    for name in before:
        if name.startswith(("actor", "critic", "normalizer", "target")):
            assert torch.equal(after[name], before[name]), name
    assert one.iterate(env, 0.2).failure is None


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_replayed_rollout_never_synchronizes(made: dict[str, VecEnv]) -> None:
    env = made["ant"]
    one = make_small_algorithm(env, "shac", "default", graphs=True)
    executor = make_executor(env, [one.generator])

    def stages() -> None:
        buffer = one._roll_out(env, 6)
        one._fit_critic(buffer, one._update_actor(buffer))

    for _ in range(2):
        executor.call(stages)
    torch.cuda.set_sync_debug_mode("error")
    try:
        executor.call(stages)
    finally:
        torch.cuda.set_sync_debug_mode("default")
