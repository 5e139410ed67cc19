"""Horizon rules, against numbers computed by hand."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ahac.algos.parts.gradient_horizon import EsnrHorizon, GrowthHorizon
from ahac.algos.parts.horizon import Bounds, FixedHorizon, HorizonRule, Signals
from ahac.algos.parts.stiffness_horizon import DualHorizon, StiffnessHorizon
from ahac.core.errors import InputError

BOUNDS = Bounds(2, 16)


def stiffness(*values: float) -> Signals:
    return Signals(stiffness=torch.tensor(values))


def dual(learning_rate: float = 0.01, signed: bool = False) -> DualHorizon:
    return DualHorizon(BOUNDS, 4.0, limit=500.0, learning_rate=learning_rate, signed=signed)


# ----------------------------------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize(("least", "most"), [(0, 4), (-1, 4), (8, 4)])
def test_bounds_without_a_horizon_between_them_are_refused(least: int, most: int) -> None:
    with pytest.raises(InputError, match=f"{least} and {most}"):
        Bounds(least, most)


def test_a_first_horizon_outside_the_bounds_is_brought_inside() -> None:
    assert StiffnessHorizon(BOUNDS, 100.0).steps == 16
    assert StiffnessHorizon(BOUNDS, 0.0).steps == 2


def test_a_fixed_horizon_never_changes() -> None:
    rule = FixedHorizon(32)
    rule.update(stiffness(1e6), 1.0)
    assert rule.steps == 32
    assert rule.multipliers() is None


# ------------------------------------------------------------------------------------------------------------- dual


def test_as_printed_multipliers_are_projected_and_the_horizon_rises_by_their_sum() -> None:
    rule = dual()
    rule.update(stiffness(600, 400, 500, 700), 1.0)
    # φ <- max(φ − 0.01 (500 − c), 0) = 1, max(−1, 0), 0, 2.
    assert rule.phi[:4].tolist() == pytest.approx([1.0, 0.0, 0.0, 2.0])
    assert rule.horizon == pytest.approx(4.03)
    # At half the rate: 1 − 0.5, 0 + 0.5, 0, max(2 − 2, 0).
    rule.update(stiffness(400, 600, 500, 100), 0.5)
    assert rule.phi[:4].tolist() == pytest.approx([0.5, 0.5, 0.0, 0.0])
    assert rule.horizon == pytest.approx(4.035)


def test_as_printed_multipliers_of_steps_not_taken_stay() -> None:
    rule = dual()
    rule.update(stiffness(600, 600), 1.0)
    assert rule.phi.tolist() == pytest.approx([1.0, 1.0] + [0.0] * 14)


def test_as_printed_the_horizon_only_grows() -> None:
    rule = dual()
    rng = torch.Generator().manual_seed(0)
    horizons = [rule.horizon]
    for _ in range(50):
        rule.update(Signals(stiffness=1000.0 * torch.rand(rule.steps, generator=rng)), 1.0)
        horizons.append(rule.horizon)
    assert horizons == sorted(horizons)
    assert horizons[-1] > horizons[0]


def test_released_multipliers_keep_their_sign_and_the_first_is_used_for_all_steps() -> None:
    rule = dual(signed=True)
    rule.update(stiffness(600, 400, 500, 700), 1.0)
    # φ = 1, −1, 0, 2, whose sum is 2; then all are 1.
    assert rule.horizon == pytest.approx(4.02)
    assert rule.phi.tolist() == pytest.approx([1.0] * 16)


def test_released_the_horizon_can_shrink() -> None:
    rule = dual(signed=True)
    rule.update(stiffness(600, 400, 500, 700), 1.0)
    rule.update(stiffness(100, 100, 100, 100), 1.0)
    # φ = 1 − 0.01 · 400 = −3 four times.
    assert rule.horizon == pytest.approx(3.90)
    assert rule.phi.tolist() == pytest.approx([-3.0] * 16)


@pytest.mark.parametrize(("level", "expected"), [(0.0, 2), (1e4, 16)])
def test_dual_horizons_stop_at_the_bounds(level: float, expected: int) -> None:
    rule = dual(learning_rate=1.0, signed=True)
    rule.update(stiffness(*[level] * 4), 1.0)
    assert rule.steps == expected


def test_there_is_a_multiplier_for_every_step_of_the_next_rollout() -> None:
    rule = dual(learning_rate=0.1)
    rule.update(stiffness(600, 600, 600, 600), 1.0)
    # φ = 10 four times: H = 4 + 0.1 · 40.
    assert rule.steps == 8
    phi = rule.multipliers()
    assert phi is not None
    assert phi.tolist() == pytest.approx([10.0] * 4 + [0.0] * 4)


# ----------------------------------------------------------------------------------------------- shrink and growth


@pytest.mark.parametrize(("mean", "power"), [(250.0, 0.5), (500.0, 0.0), (750.0, -0.5), (5000.0, -1.0), (0.0, 1.0)])
def test_shrink_lengthens_below_the_limit_and_shortens_above(mean: float, power: float) -> None:
    rule = StiffnessHorizon(BOUNDS, 8.0, limit=500.0, speed=0.1)
    rule.update(stiffness(mean - 100.0, mean + 100.0), 1.0)
    assert rule.horizon == pytest.approx(8.0 * math.exp(0.1 * power))


@pytest.mark.parametrize(("first", "power"), [(1.0, 1.0), (10.0**0.5, 0.5), (10.0, 0.0), (100.0, -1.0), (1e6, -1.0)])
def test_growth_is_held_at_the_limit(first: float, power: float) -> None:
    rule = GrowthHorizon(BOUNDS, 8.0, limit=math.log(10.0), speed=0.1)
    # Quarters of eight steps at either end count; their means are `first` and 1.
    rule.update(Signals(adjoint_norms=torch.tensor([1.5 * first, 0.5 * first, 9.0, 9.0, 9.0, 9.0, 1.5, 0.5])), 1.0)
    assert rule.horizon == pytest.approx(8.0 * math.exp(0.1 * power), rel=1e-6)


@pytest.mark.parametrize("norms", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [1.0, 0.0], [0.0, 1.0]])
def test_growth_that_is_not_finite_is_ignored(norms: list[float]) -> None:
    rule = GrowthHorizon(BOUNDS, 8.0)
    rule.update(Signals(adjoint_norms=torch.tensor(norms)), 1.0)
    assert rule.horizon == 8.0


@pytest.mark.parametrize("rule", [StiffnessHorizon(BOUNDS, 8.0, speed=1.0), GrowthHorizon(BOUNDS, 8.0, speed=1.0)])
def test_shrink_and_growth_stop_at_the_bounds(rule: HorizonRule) -> None:
    def signals(high: float) -> Signals:
        return Signals(stiffness=torch.full((4,), 1e3 * high), adjoint_norms=torch.tensor([100.0 * high + 1.0, 1.0]))

    for high, expected in [(0.0, 16), (1.0, 2)]:
        for _ in range(5):
            rule.update(signals(high), 1.0)
        assert rule.steps == expected


# ------------------------------------------------------------------------------------------------------------- esnr


def test_the_ladder_is_geometric_and_begins_at_the_rung_nearest_to_the_first_length() -> None:
    rule = EsnrHorizon(Bounds(8, 64), 16.0)
    # round(8 · 1.41) + 1 = 12, 18, 26, 38, 55, then the bound.
    assert rule.ladder == [8, 12, 18, 26, 38, 55, 64]
    assert rule.steps == 18


@pytest.mark.parametrize("first", [8.0, 26.0, 64.0])
@pytest.mark.parametrize("best", [8, 12, 26, 64])
def test_esnr_climbs_to_the_best_rung_and_stays_near_it(first: float, best: int) -> None:
    rule = EsnrHorizon(Bounds(8, 64), first)
    peak = rule.ladder.index(best)
    for i in range(400):
        height = -2.0 * abs(rule.ladder.index(rule.steps) - peak)
        rule.update(Signals(esnr=math.exp(height) / rule.steps), 1.0)
        if i >= 200:
            assert abs(rule.ladder.index(rule.steps) - peak) <= 1
            assert rule.ladder[rule.best_rung] == best


@pytest.mark.parametrize("first", [8.0, 26.0, 64.0])
def test_esnr_keeps_the_best_rung_while_all_are_equal(first: float) -> None:
    rule = EsnrHorizon(Bounds(8, 64), first)
    start = rule.best_rung
    for _ in range(40):
        rule.update(Signals(esnr=0.0), 1.0)
        assert rule.best_rung == start


# ------------------------------------------------------------------------------------------------------------ saved

RULES: dict[str, Callable[[], HorizonRule]] = {
    "fixed": lambda: FixedHorizon(8),
    "paper": lambda: dual(learning_rate=0.1),
    "released": lambda: dual(learning_rate=0.1, signed=True),
    "shrink": lambda: StiffnessHorizon(BOUNDS, 8.0, speed=0.3),
    "growth": lambda: GrowthHorizon(BOUNDS, 8.0, speed=0.3),
    "esnr": lambda: EsnrHorizon(BOUNDS, 8.0),
}


def learn(rule: HorizonRule, updates: int, seed: int) -> list[dict[str, Tensor]]:
    """Apply random updates, and return the state after each."""
    rng = torch.Generator().manual_seed(seed)
    states = []
    for _ in range(updates):
        values = torch.rand(2, rule.steps, generator=rng)
        signals = Signals(stiffness=1100.0 * values[0], adjoint_norms=values[1] * 20.0, esnr=float(values[0, 0]))
        rule.update(signals, 0.9)
        states.append(rule.state_dict() | {"steps": torch.tensor(rule.steps)})
    return states


def same(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> bool:
    """Compare bit-exactly; unknown scores are NaN on both sides."""
    pairs = [(actual[key].nan_to_num(-1.0), expected[key].nan_to_num(-1.0)) for key in expected]
    return actual.keys() == expected.keys() and all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", RULES)
def test_a_saved_rule_resumes_bit_exactly(name: str) -> None:
    one, other = RULES[name](), RULES[name]()
    learn(one, 7, seed=1)
    saved = one.state_dict()
    copy = {key: value.clone() for key, value in saved.items()}
    states = learn(one, 20, seed=2)
    assert same(saved, copy), "what was saved has changed"
    other.load_state_dict(saved)
    for actual, expected in zip(learn(other, 20, seed=2), states, strict=True):
        assert same(actual, expected)
