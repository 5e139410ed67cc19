"""Reports name the first non-finite value: its tensor, step, world and action."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ahac.rl.nonfinite import NonFiniteReport, diagnose_rollout
from ahac.rl.rollout import Rollout
from support.scripted_env import made_step

STEPS, WORLDS = 4, 3
NAN, INF = float("nan"), float("inf")


def made_rollout(**changes: Tensor) -> Rollout:
    """A rollout of zeros, with actions 0.1 t + w whose gradients are zero."""
    never = torch.zeros(WORLDS, dtype=torch.bool)
    steps = []
    for t in range(STEPS):
        action = (torch.arange(float(WORLDS))[:, None] + 0.1 * t).requires_grad_()
        action.grad = torch.zeros(WORLDS, 1)
        one = torch.zeros(WORLDS)
        steps.append(made_step(terminated=never, episode_return=one, episode_length=one, action=action))
    flat, wide = torch.zeros(STEPS, WORLDS), torch.zeros(STEPS, WORLDS, 2)
    parts = {
        "raw_obs": wide,
        "obs": wide,
        "raw_critic_obs": changes.get("raw_obs", wide),
        "critic_obs": changes.get("obs", wide),
        "final_critic_obs": wide,
        "reward": flat,
        "terminated": flat.bool(),
        "cut": flat.bool(),
        "stiff": flat.bool(),
        "stiffness": None,
    }
    return Rollout(**{**parts, **changes}, steps=steps)


def diagnose(rollout: Rollout, value: Tensor | None = None) -> NonFiniteReport:
    """Diagnose with critic values of zero, or the given ones."""
    return diagnose_rollout(rollout, torch.zeros(STEPS, WORLDS) if value is None else value)


def corrupted(shape: tuple[int, ...], *places: tuple[int, ...], value: float = NAN) -> Tensor:
    actual = torch.zeros(shape)
    for place in places:
        actual[place] = value
    return actual


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("reward", "reward"),
        ("stiffness", "stiffness"),
        ("obs", "observation"),
        ("final_critic_obs", "final observation"),
    ],
)
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_tensor_step_world_and_action_are_named(part: str, name: str, value: float) -> None:
    shape = (STEPS, WORLDS, 2) if part.endswith("obs") else (STEPS, WORLDS)
    actual = diagnose(made_rollout(**{part: corrupted(shape, (2, 1), value=value)}))
    assert actual.message == f"the {name} of step 2 in world 1 is not finite; the action there is [1.2]"
    assert actual.worlds.tolist() == [False, True, False]


def test_the_first_step_is_named_and_all_worlds_are_marked() -> None:
    actual = diagnose(made_rollout(reward=corrupted((STEPS, WORLDS), (3, 0), (1, 2))))
    assert "the reward of step 1 in world 2" in actual.message
    assert actual.worlds.tolist() == [True, False, True]


def test_of_a_gradient_the_last_step_is_named_since_it_is_computed_first() -> None:
    rollout = made_rollout()
    for t in (0, 1, 2):
        assert rollout.steps[t].action.grad is not None
        rollout.steps[t].action.grad[1] = NAN  # pyright: ignore[reportOptionalSubscript]
    assert "the gradient of the action of step 2 in world 1" in diagnose(rollout).message


def test_the_earliest_step_is_named() -> None:
    rollout = made_rollout(reward=corrupted((STEPS, WORLDS), (1, 0)), obs=corrupted((STEPS, WORLDS, 2), (2, 0)))
    assert "the reward of step 1 in world 0" in diagnose(rollout).message


def test_an_observation_of_the_same_step_comes_before_its_reward() -> None:
    rollout = made_rollout(reward=corrupted((STEPS, WORLDS), (2, 0)), obs=corrupted((STEPS, WORLDS, 2), (2, 0)))
    assert "the observation of step 2 in world 0" in diagnose(rollout).message


def test_a_non_finite_policy_gradient_alone_is_reported() -> None:
    actual = diagnose(made_rollout())
    assert actual.message.startswith("the gradient of the policy is not finite, though every world's is")
    assert not actual.worlds.any()


def test_a_reproducer_has_the_start_and_all_actions() -> None:
    rollout = made_rollout(reward=corrupted((STEPS, WORLDS), (2, 1)))
    kept = diagnose(rollout).reproducer
    assert kept["actions"].shape == (STEPS, WORLDS, 1)
    assert torch.equal(kept["q"], rollout.steps[0].state.q)
    assert torch.equal(kept["v"], rollout.steps[0].state.v)
    assert not kept["actions"].requires_grad


def test_a_critic_is_named_and_the_worlds_are_not_blamed() -> None:
    rollout = made_rollout(reward=corrupted((STEPS, WORLDS)))
    for step in rollout.steps:
        step.action.grad = torch.full((WORLDS, 1), NAN)
    actual = diagnose(rollout, torch.full((STEPS, WORLDS), NAN))
    assert actual.message.startswith("the critic's value after the action of step 0 in world 0 is not finite")
    assert not actual.worlds.any()


def test_a_world_with_a_non_finite_final_observation_is_blamed_for_its_value() -> None:
    rollout = made_rollout(final_critic_obs=corrupted((STEPS, WORLDS, 2), (1, 2)))
    actual = diagnose(rollout, corrupted((STEPS, WORLDS), (1, 2)))
    assert "the final observation of step 1 in world 2" in actual.message
    assert actual.worlds.tolist() == [False, False, True]


def soft_rollout(entropy: Tensor, temperature: float, reward: Tensor | None = None) -> NonFiniteReport:
    """Diagnose a rollout whose reward has an entropy bonus α ℋ."""
    reward = torch.zeros(STEPS, WORLDS) if reward is None else reward
    rollout = made_rollout(reward=reward + temperature * entropy)
    rollout = replace(rollout, steps=[replace(s, reward=r) for s, r in zip(rollout.steps, reward, strict=True)])
    for step in rollout.steps:
        step.action.grad = torch.full((WORLDS, 1), NAN)
    zeros = torch.zeros(STEPS, WORLDS)
    return diagnose_rollout(rollout, zeros, entropy=entropy, temperature=temperature)


def test_a_huge_temperature_is_named_and_no_world_is_blamed() -> None:
    found = soft_rollout(torch.full((STEPS, WORLDS), 1.5), 1e30)
    assert found.message == (
        "the reward with its entropy bonus of step 0 in world 0 is 1.5e+30 in magnitude, too large to learn from (at "
        "most 1e+12); the action there is [0.0]; the temperature is 1e+30 and the entropy 1.5: lower "
        "entropy.init_temperature or entropy.learning_rate, or actor.learning_rate if the entropy is large"
    )
    assert not found.worlds.any()


def test_a_sum_of_reward_and_bonus_that_is_too_large_is_named() -> None:
    found = soft_rollout(torch.full((STEPS, WORLDS), 9.0), 1e11, torch.full((STEPS, WORLDS), 9e11))
    assert found.message.startswith("the reward with its entropy bonus of step 0 in world 0 is 1.8e+12 in magnitude")
    assert not found.worlds.any()


def test_a_world_whose_own_reward_is_too_large_is_blamed_also_with_an_entropy_bonus() -> None:
    found = soft_rollout(torch.ones(STEPS, WORLDS), 1.0, corrupted((STEPS, WORLDS), (2, 1), value=1e30))
    assert found.message.startswith("the reward of step 2 in world 1 is 1e+30 in magnitude")
    assert found.worlds[1]
