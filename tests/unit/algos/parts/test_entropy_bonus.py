"""The maximum-entropy objective, against numbers worked out by hand."""

import math

import pytest
import torch

from ahac.algos.config import EntropyConfig
from ahac.algos.parts.entropy_bonus import EntropyBonus

CPU, F64 = torch.device("cpu"), torch.float64
YES = torch.tensor(True)


def bonus(config: EntropyConfig | None = None, actions: int = 4) -> EntropyBonus:
    return EntropyBonus(config or EntropyConfig(), actions, CPU, F64)


def test_the_bonus_is_zero_at_the_target_and_half_without_entropy() -> None:
    one = bonus(EntropyConfig(init_temperature=3.0))  # the target of four actions is −2
    entropy = torch.tensor([[-2.0, 0.0, 2.0]], dtype=F64, requires_grad=True)
    found = one(entropy)
    torch.testing.assert_close(found, 3.0 * torch.tensor([[0.0, 0.5, 1.0]], dtype=F64))
    (gradient,) = torch.autograd.grad(found.sum(), entropy)
    torch.testing.assert_close(gradient, torch.full((1, 3), 3.0 * 0.25, dtype=F64))


@pytest.mark.parametrize(("entropy", "direction"), [(1.0, -1.0), (-3.0, 1.0)])
def test_the_temperature_falls_above_the_target_and_rises_below(entropy: float, direction: float) -> None:
    one = bonus(EntropyConfig(learning_rate=0.1))
    one.update(torch.tensor(entropy, dtype=F64), YES)
    # Adam's first step has the size of the learning rate.
    assert one.alpha.item() == pytest.approx(math.exp(0.1 * direction))


def test_nothing_is_learned_from_an_iteration_that_is_not_valid() -> None:
    one = bonus()
    one.update(torch.tensor(1.0, dtype=F64), ~YES)
    one.update(torch.tensor(torch.nan, dtype=F64), YES)
    assert one.alpha.item() == 1.0


def test_the_target_can_be_set() -> None:
    assert bonus(EntropyConfig(target=-8.0)).target == -8.0
    assert bonus(actions=6).target == -3.0
