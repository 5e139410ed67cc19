"""First-order algorithms with bundled contact gradients."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ahac.algos.config import ShortHorizonConfig
from ahac.algos.recipes import recipe
from ahac.algos.reference import Reference
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.bundle import BundleConfig
from ahac.core.errors import InputError
from ahac.envs import VecEnv, make
from ahac.rl.rollout import roll_out
from support.episodes import outcomes, random_actions
from support.marks import keep
from support.scripted_env import Scripted

WORLDS = 4
BUNDLE = BundleConfig(branches=4)


@pytest.fixture(scope="module")
def made(device: torch.device) -> VecEnv:
    return make("hopper", num_envs=WORLDS, device=device)


@pytest.fixture
def env(made: VecEnv) -> VecEnv:
    """Hoppers on the ground."""
    made.reset(seed=1)
    outcomes(made, random_actions(made, 12, seed=2))
    return made


def config_of(algo: str, bundle: BundleConfig) -> ShortHorizonConfig:
    config = recipe("hopper", algo).algorithm
    critic = None if config.critic is None else replace(config.critic, hidden=(8, 8), epochs=8)
    horizon = replace(config.horizon, initial=6, min=4, max=12)
    actor = replace(config.actor, hidden=(8, 8))
    return replace(config, actor=actor, critic=critic, horizon=horizon, bundle=bundle)


def make_small_algorithm(
    env: VecEnv, algo: str, bundle: BundleConfig = BUNDLE, seed: int = 0
) -> ShortHorizonActorCritic:
    return ShortHorizonActorCritic(config_of(algo, bundle), env.spec, seed)


def train(algo: ShortHorizonActorCritic, env: VecEnv, iterations: int) -> list[dict[str, float]]:
    return [dict(algo.iterate(env, 0.1 * i).metrics) for i in range(iterations)]


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(actual[name], value), name


@pytest.mark.parametrize("algo", keep(2, ["ahac", "sapo", "shac", "ahac1", "bptt"]))
def test_training_with_branches_resumes_bit_exactly(env: VecEnv, algo: str) -> None:
    one, other = make_small_algorithm(env, algo, seed=1), make_small_algorithm(env, algo, seed=2)
    rows = train(one, env, 2)
    assert all(0.0 < row["share_bundled"] <= 1.0 for row in rows)
    saved, worlds = one.state_dict(), env.state_dict()
    expected = train(one, env, 3)
    train(other, env, 1)
    other.load_state_dict(saved)
    env.load_state_dict(worlds)
    assert train(other, env, 3) == expected
    assert_same(other.state_dict(), one.state_dict())


def test_branches_change_the_gradient_and_zero_branches_do_not(env: VecEnv) -> None:
    saved, results, norms = env.state_dict(), [], []
    for bundle in (BundleConfig(), BundleConfig(load=0.5, position_noise=0.1), BUNDLE):
        env.load_state_dict(saved)
        one = make_small_algorithm(env, "shac", bundle)
        (row,) = train(one, env, 1)
        assert ("share_bundled" in row) == bundle.enabled
        norms.append(row["actor_grad_norm"])
        results.append(one.state_dict())
    assert_same(results[1], results[0])
    assert norms[2] != pytest.approx(norms[0], rel=1e-4)


def test_a_load_that_is_never_reached_leaves_plain_steps(env: VecEnv) -> None:
    saved, results = env.state_dict(), []
    for bundle in (BundleConfig(), replace(BUNDLE, load=1e6)):
        env.load_state_dict(saved)
        one = make_small_algorithm(env, "ahac", bundle)
        rows = train(one, env, 2)
        results.append(one.state_dict())
    assert rows[0]["share_bundled"] == 0.0
    assert_same(*results)


def test_an_environment_without_bundled_steps_is_refused() -> None:
    env = Scripted([[3]])
    with pytest.raises(InputError, match=r"bundle\.branches is 4, but 'scripted' is a Scripted without bundled steps"):
        roll_out(env, lambda obs: torch.zeros(1, 1), lambda obs: obs, 2, bundle=BUNDLE)
    roll_out(env, lambda obs: torch.zeros(1, 1), lambda obs: obs, 2, bundle=BundleConfig())


def test_the_reference_has_no_branches(env: VecEnv) -> None:
    with pytest.raises(InputError, match="other settings of bundle"):
        Reference(config_of("shac", BUNDLE), env.spec, 0)
