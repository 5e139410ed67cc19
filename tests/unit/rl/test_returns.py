"""Value targets and discounts, against numbers computed by hand and the paper's explicit sum."""

import pytest
import torch
from torch import Tensor

from ahac.rl.returns import segment_discounts, td_lambda

# Time goes down, two worlds side by side. World 0 terminates at its second step, where no value follows; world 1 runs
# out of time at its first, where one does. All end with the rollout.
REWARD = torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 4.0]])
NEXT_VALUE = torch.tensor([[4.0, 6.0], [0.0, 2.0], [8.0, 8.0]])
CUT = torch.tensor([[False, True], [True, False], [True, True]])


def explicit(reward: Tensor, next_value: Tensor, gamma: float, lam: float) -> Tensor:
    """(1 − λ) Σ_{h<L} λ^{h−1} R_h + λ^{L−1} R_L of one segment, at each of its steps; R_h = Σ_{k<h} γᵏ r_k + γʰ V_h."""
    targets = []
    for t in range(len(reward)):
        r, v = reward[t:], next_value[t:]
        powers = gamma ** torch.arange(len(r), dtype=r.dtype)
        bootstrapped = (powers * r).cumsum(0) + gamma * powers * v
        weights = (1.0 - lam) * lam ** torch.arange(len(r), dtype=r.dtype)
        weights[-1] = lam ** (len(r) - 1)
        targets.append((weights * bootstrapped).sum())
    return torch.stack(targets)


def test_td_lambda_by_hand() -> None:
    # World 0: 3 + 8/2 = 7;  2 + 0 = 2;  1 + (4/2 + 2/2)/2 = 2.5.   World 1: 4 + 8/2 = 8;  2 + (2/2 + 8/2)/2 = 4.5;
    # 1 + 6/2 = 4.
    expected = torch.tensor([[2.5, 4.0], [2.0, 4.5], [7.0, 8.0]])
    assert torch.equal(td_lambda(REWARD, NEXT_VALUE, CUT, gamma=0.5, lambda_=0.5), expected)


def test_lambda_zero_looks_one_step_ahead() -> None:
    expected = torch.tensor([[3.0, 4.0], [2.0, 3.0], [7.0, 8.0]])
    assert torch.equal(td_lambda(REWARD, NEXT_VALUE, CUT, gamma=0.5, lambda_=0.0), expected)


def test_lambda_one_sums_rewards_up_to_the_cut() -> None:
    # World 0: 1 + 2/2 = 2;  2.   World 1: 2 + 4/2 + 8/4 = 6.
    expected = torch.tensor([[2.0, 4.0], [2.0, 6.0], [7.0, 8.0]])
    assert torch.equal(td_lambda(REWARD, NEXT_VALUE, CUT, gamma=0.5, lambda_=1.0), expected)


@pytest.mark.parametrize("gamma", [0.5, 0.99, 1.0])
@pytest.mark.parametrize("lam", [0.0, 0.3, 0.95, 1.0])
def test_td_lambda_is_the_papers_sum_in_every_segment(gamma: float, lam: float) -> None:
    generator = torch.Generator().manual_seed(1)
    reward, value = torch.randn(2, 40, 5, generator=generator, dtype=torch.float64)
    cut = torch.rand(40, 5, generator=generator) < 0.15
    cut[-1] = True
    actual = td_lambda(reward, value, cut, gamma, lam)
    for world in range(5):
        start = 0
        for end in [i + 1 for i in cut[:, world].nonzero().flatten().tolist()]:
            expected = explicit(reward[start:end, world], value[start:end, world], gamma, lam)
            assert (actual[start:end, world] - expected).abs().max() < 1e-12
            start = end


def test_inputs_are_not_modified_and_the_precision_is_kept() -> None:
    reward = REWARD.double()
    value = NEXT_VALUE.double()
    cut = CUT.clone()
    assert td_lambda(reward, value, cut, gamma=0.5, lambda_=0.5).dtype == torch.float64
    assert torch.equal(reward, REWARD.double())
    assert torch.equal(value, NEXT_VALUE.double())
    assert torch.equal(cut, CUT)


def test_segment_discounts_by_hand() -> None:
    expected = torch.tensor([[1.0, 1.0], [0.5, 1.0], [1.0, 0.5]], dtype=torch.float64)
    actual = segment_discounts(CUT, 0.5, torch.float64)
    assert actual.dtype == torch.float64
    assert torch.equal(actual, expected)


def test_discounts_of_an_uncut_trajectory_are_the_powers_of_gamma() -> None:
    actual = segment_discounts(torch.zeros(5, 1, dtype=torch.bool), 0.5, torch.float32)
    assert actual[:, 0].tolist() == [1.0, 0.5, 0.25, 0.125, 0.0625]
