"""Advantages, against numbers computed by hand."""

import torch
from torch.testing import assert_close

from ahac.rl.gae import gae
from ahac.rl.returns import td_lambda

GAMMA, LAM = 0.5, 0.5


def column(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


def test_three_steps_by_hand() -> None:
    reward = column(1.0, 2.0, 3.0)
    value = column(4.0, 2.0, 6.0)
    next_value = column(2.0, 6.0, 8.0)
    cut = torch.zeros(3, 1, dtype=torch.bool)
    # δ = 1 + 0.5·2 − 4 = −2,   2 + 0.5·6 − 2 = 3,   3 + 0.5·8 − 6 = 1;   A = δ + 0.25 A
    expected = column(-2.0 + 0.25 * (3.0 + 0.25 * 1.0), 3.0 + 0.25 * 1.0, 1.0)
    assert_close(gae(reward, value, next_value, cut, GAMMA, LAM), expected)


def test_no_value_follows_a_terminated_episode() -> None:
    reward = column(1.0, 2.0, 3.0)
    value = column(4.0, 2.0, 6.0)
    next_value = column(2.0, 0.0, 8.0)
    cut = torch.tensor([[False], [True], [False]])
    # δ of the second step = 2 + 0 − 2 = 0, and the third is another episode's.
    assert_close(gae(reward, value, next_value, cut, GAMMA, LAM), column(-2.0, 0.0, 1.0))


def test_a_time_out_is_bootstrapped_from_the_state_reached() -> None:
    reward = column(1.0, 2.0, 3.0)
    value = column(4.0, 2.0, 6.0)
    next_value = column(2.0, 10.0, 8.0)
    cut = torch.tensor([[False], [True], [False]])
    # δ of the second step = 2 + 0.5·10 − 2 = 5, where 10 is of the state before the reset.
    assert_close(gae(reward, value, next_value, cut, GAMMA, LAM), column(-2.0 + 0.25 * 5.0, 5.0, 1.0))


def test_with_the_values_it_is_the_td_lambda_target() -> None:
    rng = torch.Generator().manual_seed(0)
    reward, value, last = (torch.randn(9, 4, generator=rng, dtype=torch.float64) for _ in range(3))
    cut = torch.rand(9, 4, generator=rng) < 0.2
    next_value = torch.where(cut, last, torch.cat([value[1:], last[:1]]))
    ends = cut.clone()
    ends[-1] = True
    actual = gae(reward, value, next_value, cut, 0.97, 0.9) + value
    assert_close(actual, td_lambda(reward, next_value, ends, 0.97, 0.9))
