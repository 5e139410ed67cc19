"""The fast implementation of the first-order algorithms computes the same numbers as the plain reference."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from ahac.algos.config import ShortHorizonConfig, StiffnessConfig
from ahac.algos.parts.gradient_horizon import EsnrHorizon
from ahac.algos.parts.horizon import Bounds, Signals
from ahac.algos.recipes import recipe
from ahac.algos.reference import Reference
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.errors import InputError
from ahac.nets.actor import Actor
from learning.double_integrator import DoubleIntegrator
from learning.traces import CASES, settings
from support.observation_groups import TwoGroups

ITERATIONS = 6
ROUNDING = 1e-9
"""Relative, in float64: sums are taken in another order."""

RULES = ("fixed", "paper", "released", "shrink", "growth", "esnr")


def world(seed: int) -> DoubleIntegrator:
    """Episodes end by time and by a bound in the middle of rollouts."""
    return DoubleIntegrator(8, seed=seed, episode_steps=11, bound=1.2, dtype=torch.float64)


@torch.no_grad()
def copy_weights(fast: ShortHorizonActorCritic, plain: Reference) -> None:
    """Start from the same networks."""
    plain.actor.load_state_dict({k.removeprefix("net."): x for k, x in fast.actor.state_dict().items() if "net." in k})
    assert isinstance(fast.actor, Actor)
    plain.log_std.copy_(fast.actor.log_std)
    for member, critic in enumerate(plain.critics):
        unpack(critic, fast.critic.theta[member])  # pyright: ignore[reportOptionalMemberAccess]
        plain.targets[member].load_state_dict(critic.state_dict())


def unpack(critic: nn.Sequential, theta: Tensor) -> None:
    """Fill a network from the flat weights of a critic."""
    widths = [m.in_features for m in critic if isinstance(m, nn.Linear)] + [1]
    start, layers = 0, list(critic)
    for k, (inputs, outputs) in enumerate(pairwise(widths)):
        linear = layers[3 * k]
        assert isinstance(linear, nn.Linear)
        sizes = [inputs * outputs, outputs]
        weight, bias = theta[start : start + sum(sizes)].split(sizes)
        linear.weight.copy_(weight.view(inputs, outputs).T)
        linear.bias.copy_(bias)
        start += sum(sizes)
        if k < len(widths) - 2:
            norm = layers[3 * k + 2]
            assert isinstance(norm, nn.LayerNorm)
            norm.weight.copy_(theta[start : start + outputs])
            norm.bias.copy_(theta[start + outputs : start + 2 * outputs])
            start += 2 * outputs


def flat(plain: Reference) -> Tensor:
    """All weights of the policy."""
    return torch.cat([x.detach().flatten() for x in plain.actor_parameters])


def flat_fast(fast: ShortHorizonActorCritic) -> Tensor:
    assert isinstance(fast.actor, Actor)
    net = [x.detach().flatten() for x in fast.actor.net.parameters()]
    return torch.cat([*net, fast.actor.log_std.detach()])


def two_groups(seed: int) -> TwoGroups:
    """The same, with more observations for critics."""
    return TwoGroups(8, seed=seed, episode_steps=11, bound=1.2)


def compare(config: ShortHorizonConfig, make: Callable[[int], DoubleIntegrator] = world) -> list[float]:
    """Train both, check that they agree after every iteration, and return the horizons."""
    fast_env, plain_env = make(3), make(3)
    fast = ShortHorizonActorCritic(config, fast_env.spec, seed=4)
    plain = Reference(config, plain_env.spec, seed=4)
    copy_weights(fast, plain)
    start, horizons = flat(plain), []
    for i in range(ITERATIONS):
        report = fast.iterate(fast_env, i / ITERATIONS)
        metrics = plain.iterate(plain_env, i / ITERATIONS)
        for name, value in metrics.items():
            if name in report.metrics:
                assert report.metrics[name] == pytest.approx(value, rel=ROUNDING, abs=1e-12), f"{name} of {i}"
        scale = float((flat(plain) - start).norm())
        assert float((flat_fast(fast) - flat(plain)).norm()) < ROUNDING * scale
        assert torch.allclose(fast.normalizer.variance, plain.statistics.variance, rtol=ROUNDING)
        if fast.critic_normalizer is not None:
            assert torch.allclose(fast.critic_normalizer.variance, plain.critic_statistics.variance, rtol=ROUNDING)
        horizons.append(plain.horizon)
    return horizons


@pytest.mark.parametrize("case", CASES)
def test_every_algorithm_matches_its_reference(case: str) -> None:
    compare(settings(case))


@pytest.mark.parametrize("case", CASES)
def test_every_algorithm_matches_its_reference_with_two_observation_groups(case: str) -> None:
    compare(settings(case), two_groups)


@pytest.mark.parametrize("rule", RULES)
def test_every_horizon_rule_matches_its_reference(rule: str) -> None:
    made = settings("ahac")
    stiffness = StiffnessConfig(signal="contact", limit=300.0, lagrangian=rule in ("paper", "released"))
    config = replace(made, horizon=replace(made.horizon, rule=rule, speed=0.2), stiffness=stiffness)
    horizons = compare(config)
    assert (len(set(horizons)) > 1) == (rule != "fixed"), "the horizon moved"


@pytest.mark.parametrize("rule", ["paper", "released"])
def test_with_learning_rates_of_zero_horizon_multipliers_and_policy_stay(rule: Literal["paper", "released"]) -> None:
    made = settings("ahac")
    horizon = replace(made.horizon, rule=rule, initial=8.0, learning_rate=0.0)
    stiffness = StiffnessConfig(signal="contact", limit=300.0, lagrangian=True)
    still = replace(made, actor=replace(made.actor, learning_rate=0.0), horizon=horizon, stiffness=stiffness)
    fast = ShortHorizonActorCritic(still, world(3).spec, seed=4)
    before, env = flat_fast(fast), world(3)
    for i in range(3):
        fast.iterate(env, i / 3)
    assert torch.equal(flat_fast(fast), before)
    assert fast.horizon.steps == 8
    assert set(compare(replace(still, actor=made.actor))) == {8.0}


def test_a_rollout_of_one_step_lengthens_the_growth_horizon_as_in_the_reference() -> None:
    made = settings("ahac")
    horizons = compare(replace(made, horizon=replace(made.horizon, rule="growth", min=1, initial=1.0, speed=0.2)))
    assert horizons[0] == pytest.approx(math.exp(0.2))
    assert horizons[-1] >= 2.0


@pytest.mark.parametrize("initial", [4.0, 9.0, 16.0])
def test_the_esnr_rule_matches_its_reference_over_many_updates(initial: float) -> None:
    made = settings("ahac")
    config = replace(made, horizon=replace(made.horizon, rule="esnr", initial=initial))
    plain = Reference(config, world(3).spec, seed=4)
    rule = EsnrHorizon(Bounds(config.horizon.min, config.horizon.max), initial)
    rng = torch.Generator().manual_seed(5)
    lengths = set()
    for _ in range(300):
        ratio = float(torch.rand((), generator=rng))
        plain.climb(ratio)
        rule.update(Signals(esnr=ratio), 1.0)
        assert plain.horizon == rule.horizon
        lengths.add(rule.horizon)
    assert len(lengths) > 2


def test_settings_that_the_paper_does_not_have_are_refused() -> None:
    sapo = recipe("hopper", "sapo").algorithm
    with pytest.raises(InputError, match="got other settings of entropy, actor, critic; use ShortHorizonActorCritic"):
        Reference(sapo, world(3).spec, seed=4)
