"""Values too large or not finite: the iteration is skipped and reported, learned state is kept, training continues."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ahac.algos.algorithm import Algorithm, IterationResult
from ahac.algos.config import ShortHorizonConfig, UpdateConfig
from ahac.algos.registry import make_algorithm
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.env import Step
from ahac.core.errors import InputError, NonFiniteError
from ahac.envs import make
from ahac.nets.normalizer import Normalizer
from ahac.nets.state_dicts import first_non_finite
from learning.double_integrator import DoubleIntegrator
from support.marks import extended
from support.small_algorithms import SETTINGS, WORLDS, make_small_algorithm

WORLD, STEP = 2, 3
"""World and step of the iteration with a bad value."""
NAN, INF = float("nan"), float("inf")
VALUES = [NAN, 1e30, *extended(-INF, 1e13, -1e20, 3e38)]


class CorruptingEnv(DoubleIntegrator):
    """Corrupts one reward or observation on request; rejects non-finite actions, as environments on the CPU do."""

    def __init__(self) -> None:
        super().__init__(WORLDS, seed=0)
        self.spec = replace(self.spec, reward_terms=("place", "speed", "effort"))
        self.left = -2
        self.value = 0.0
        self.part = "reward"

    def corrupt(self, part: str, value: float) -> None:
        """Replace a value STEP steps from now."""
        self.left = STEP
        self.value = value
        self.part = part

    def step(self, action: Tensor) -> Step:
        if not bool(torch.isfinite(action).all()):
            raise InputError("action is not finite")
        step = super().step(action)
        self.left -= 1
        if self.left != -1:
            return step
        if self.part == "observation":
            self.obs = self.critic_obs = seen = _with(self.obs, self.value)
            return replace(step, obs=seen, critic_obs=seen, final_obs=seen, final_critic_obs=seen)
        terms = step.reward_terms.clone()
        terms[WORLD, 1] = self.value
        return replace(step, reward=_with(step.reward, self.value), reward_terms=terms)

    def detach(self, worlds: Tensor | None = None) -> None:
        obs = self.obs.detach()
        super().detach(worlds)
        if self.left == -1:  # keep the corrupted observation, which is not part of the state
            self.obs = self.critic_obs = obs


def _with(x: Tensor, value: float) -> Tensor:
    """Replace the value of one world, and keep the gradients of the others."""
    there = torch.zeros(x.shape, dtype=torch.bool)
    there[WORLD] = True
    return torch.where(there, value, x)


def finite(one: Algorithm) -> None:
    """Check the state; scores of horizons that were not tried yet are NaN."""
    state = {name: x for name, x in one.state_dict().items() if name != "horizon.score"}
    assert first_non_finite(state) is None


def learns(one: Algorithm, env: CorruptingEnv, iterations: int = 3) -> None:
    for _ in range(iterations):
        before = one.state_dict()
        assert one.iterate(env, 0.0).failure is None
        after = one.state_dict()
        assert any(not torch.equal(after[name], before[name]) for name in before if ".weight" in name)
    finite(one)


def after_corruption(
    name: str, part: str, value: float
) -> tuple[Algorithm, CorruptingEnv, IterationResult, dict[str, Tensor]]:
    env = CorruptingEnv()
    one = make_small_algorithm(name, env)
    for _ in range(3):
        one.iterate(env, 0.0)
    before = one.state_dict()
    env.corrupt(part, value)
    return one, env, one.iterate(env, 0.0), before


def unchanged(one: Algorithm, before: dict[str, Tensor]) -> None:
    after = one.state_dict()
    changed = [key for key in before if key != "generator" and not torch.equal(after[key], before[key])]
    assert [key for key in changed if key != "horizon.score"] == []


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", SETTINGS)
def test_one_bad_reward_skips_one_iteration_and_its_term_is_named(name: str, value: float) -> None:
    one, env, report, before = after_corruption(name, "reward", value)
    how = f"{abs(value):.3g} in magnitude, too large" if abs(value) < INF else "not finite"
    assert report.failure is not None
    assert report.failure.message.startswith(f"the reward of step {STEP} in world {WORLD} is {how}")
    assert ", because of its term 'speed'; the action there is [" in report.failure.message
    assert report.failure.worlds.tolist() == [world == WORLD for world in range(WORLDS)]
    unchanged(one, before)
    finite(one)
    learns(one, env)


@pytest.mark.parametrize("name", ["sapo", "sapo, mixed"])
def test_a_temperature_that_is_too_large_is_named_and_no_world_is_reset(name: str) -> None:
    env = CorruptingEnv()
    settings = SETTINGS[name]
    assert isinstance(settings, ShortHorizonConfig)
    hot = replace(settings, entropy=replace(settings.entropy, init_temperature=1e30))
    one = make_algorithm(hot, env.spec, 0)
    before = one.state_dict()
    report = one.iterate(env, 0.0)
    assert report.failure is not None
    assert "entropy bonus of step 0 in world 0 is" in report.failure.message
    assert "; the temperature is 1e+30 and the entropy " in report.failure.message
    assert not report.failure.worlds.any()
    unchanged(one, before)


@pytest.mark.parametrize(
    ("update", "log_std", "suspect"),
    [
        (UpdateConfig(epochs=2, entropy_coef=1e30), -1.0, "update.entropy_coef 1e+30"),
        (UpdateConfig(epochs=2, kl_coef=1e30, entropy_coef=1e30), -1.0, "update.kl_coef 1e+30"),
        (UpdateConfig(epochs=2, kl_coef=0.2), 60.0, "standard deviation 1.14e+26 to 1.14e+26"),
        (UpdateConfig(gradient="mixed"), -60.0, "standard deviation 8.76e-27 to 8.76e-27"),
    ],
)
def test_settings_that_make_the_policys_gradient_non_finite_are_named(
    update: UpdateConfig, log_std: float, suspect: str
) -> None:
    env = CorruptingEnv()
    shac = SETTINGS["shac"]
    assert isinstance(shac, ShortHorizonConfig)
    config = replace(shac, update=update, actor=replace(shac.actor, init_log_std=log_std))
    failure = make_algorithm(config, env.spec, 0).iterate(env, 0.0).failure
    assert failure is not None
    assert failure.message.startswith("the gradient of the policy is not finite, though every world's is; update.")
    assert suspect in failure.message
    assert ": lower coefficients that are huge, choose actor.init_log_std closer to 0 if" in failure.message
    assert not failure.worlds.any()


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", SETTINGS)
def test_one_bad_observation_skips_one_iteration(name: str, value: float) -> None:
    one, env, report, before = after_corruption(name, "observation", value)
    assert report.failure is not None
    assert "observation" in report.failure.message or "critic's value" in report.failure.message
    assert report.failure.worlds.tolist() == [world == WORLD for world in range(WORLDS)]
    unchanged(one, before)
    finite(one)
    learns(one, env)


@pytest.mark.parametrize("part", ["reward", "observation"])
@pytest.mark.parametrize("name", SETTINGS)
def test_numbers_within_the_limit_do_not_overflow(name: str, part: str) -> None:
    one, env, _, _ = after_corruption(name, part, 0.9e12)
    finite(one)
    for _ in range(3):
        one.iterate(env, 0.0)
    finite(one)


@pytest.mark.parametrize("name", SETTINGS)
def test_an_update_that_would_not_be_finite_is_undone_and_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last check of an iteration, here for a normalizer that overflows by itself."""
    env = CorruptingEnv()
    one = make_small_algorithm(name, env)
    for _ in range(3):
        one.iterate(env, 0.0)
    before, honest = one.state_dict(), Normalizer.update

    def overflowing(self: Normalizer, batch: Tensor, *more: object) -> None:
        honest(self, batch, *more)  # pyright: ignore[reportArgumentType]
        self.variance.fill_(INF)

    monkeypatch.setattr(Normalizer, "update", overflowing)
    report = one.iterate(env, 0.0)
    monkeypatch.undo()
    assert report.failure is not None
    assert "normalizer.variance would not be finite; the iteration was undone" in report.failure.message
    unchanged(one, before)
    learns(one, env)


# ------------------------------------------------------------------------------------------------------ the policy


def policy_weights(one: Algorithm) -> dict[str, Tensor]:
    learned = one.learned.tensors  # pyright: ignore[reportAttributeAccessIssue]
    return {name: x for name, x in learned.items() if name.startswith(("actor.net.", "net.policy.", "net.trunk."))}


@pytest.mark.parametrize("name", SETTINGS)
def test_non_finite_weights_are_reported(name: str) -> None:
    env = CorruptingEnv()
    one = make_small_algorithm(name, env)
    for _ in range(3):
        one.iterate(env, 0.0)
    entry, weight = next(iter(policy_weights(one).items()))
    weight.fill_(NAN)
    named = rf"the policy's weights are not finite \({entry}\); .* --checkpoint best or iteration-NNNNNN"
    with pytest.raises(NonFiniteError, match=named):
        one.act(env.obs)
    with pytest.raises(NonFiniteError, match=named):
        one.iterate(env, 0.0)


@pytest.mark.parametrize("name", ["shac", "ppo", "sac", "fasttd3"])
def test_weights_that_are_too_large_are_reported(name: str) -> None:
    env = CorruptingEnv()
    one = make_small_algorithm(name, env)
    for _ in range(3):
        one.iterate(env, 0.0)
    for k, weight in enumerate(policy_weights(one).values()):
        weight.copy_(3e38 * (-1.0) ** torch.arange(weight.numel()).add(k).reshape(weight.shape))
    expected = r"though its weights are: they are too large \(.* is up to 3e\+38\)"
    with pytest.raises(NonFiniteError, match=expected):
        one.act(env.obs)
    with pytest.raises(NonFiniteError, match=expected):
        one.iterate(env, 0.0)


def test_an_observation_that_is_not_finite_is_not_blamed_on_the_policy() -> None:
    env = CorruptingEnv()
    one = make_small_algorithm("shac", env)
    with pytest.raises(NonFiniteError, match=r"observation \[2, 0\] is nan; .* observation functions"):
        one.act(_with(env.obs, NAN))


def test_other_errors_of_the_environment_propagate(monkeypatch: pytest.MonkeyPatch) -> None:
    env = CorruptingEnv()

    def full(action: Tensor) -> Step:
        raise InputError("something else")

    monkeypatch.setattr(env, "step", full)
    for name in SETTINGS:
        one = make_small_algorithm(name, env)
        with pytest.raises(InputError, match="something else"):
            one.iterate(env, 0.0)


def test_an_interrupted_rollout_is_an_error_with_several_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other ranks wait for this one, so it must not continue alone."""
    env = CorruptingEnv()
    one = make_small_algorithm("shac", env)
    assert isinstance(one, ShortHorizonActorCritic)
    env.obs = _with(env.obs, NAN)
    env.left = -1
    monkeypatch.setattr(one, "ranks", replace(one.ranks, size=2))
    with pytest.raises(NonFiniteError, match="the observation of step 0 in world 2 is not finite"):
        one.iterate(env, 0.0)


# ------------------------------------------------------------------------------------------------------- real worlds


def test_an_environment_knows_the_names_of_its_reward_terms() -> None:
    env = make("cartpole", num_envs=WORLDS, seed=1)
    assert env.spec.reward_terms == tuple(env.task.reward)
    assert env.step(torch.zeros(WORLDS, 1)).reward_terms.shape == (WORLDS, len(env.spec.reward_terms))


def test_a_world_with_a_non_finite_observation_is_reset() -> None:
    env = make("cartpole", num_envs=WORLDS, seed=1)
    for name in SETTINGS:
        if not isinstance(SETTINGS[name], ShortHorizonConfig):
            one = make_algorithm(SETTINGS[name], env.spec, 0)
            for _ in range(3):
                one.iterate(env, 0.0)
            corrupted = env.state_dict()
            corrupted["obs"][WORLD] = NAN
            env.load_state_dict(corrupted)
            report = one.iterate(env, 0.0)
            assert report.failure is not None
            assert report.failure.message.startswith(f"the observation of step 0 in world {WORLD} is not finite")
            assert (report.env_steps, report.steps) == (0, [])
            assert one.iterate(env, 0.0).failure is None
