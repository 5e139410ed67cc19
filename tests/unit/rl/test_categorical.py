"""Distributions of returns: projections worked out by hand, and against a dense formula."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from ahac.rl.categorical import Support, categorical_loss, expected_value, lower_distribution, project

FIVE = Support(0.0, 4.0, 5)


def projected(probability: list[float], reward: float, discount: float) -> tuple[list[float], float]:
    made, beyond = project(torch.tensor([probability]), torch.tensor([reward]), torch.tensor([discount]), FIVE, 0.5)
    return made[0].tolist(), beyond.item()


def dense(probability: Tensor, reward: Tensor, discount: Tensor, support: Support) -> Tensor:
    """The formula, with every pair of atoms."""
    moved = reward[:, None] + discount[:, None] * support.atoms(probability)
    position = ((moved - support.v_min) / support.spacing).clamp(0.0, support.count - 1.0)
    weight = (1.0 - (position[:, :, None] - torch.arange(support.count)).abs()).clamp(min=0.0)
    return (probability[:, :, None] * weight).sum(dim=1)


@pytest.mark.parametrize(
    ("probability", "reward", "discount", "expected", "beyond"),
    [
        # Terminated: the reward alone, three quarters of the way from 2 to 3.
        ([0.2, 0.2, 0.2, 0.2, 0.2], 2.75, 0.0, [0.0, 0.0, 0.25, 0.75, 0.0], 0.0),
        # 1 becomes 1 + 0.5 = 1.5 and 3 becomes 2.5; each is split in half.
        ([0.0, 0.5, 0.0, 0.5, 0.0], 1.0, 0.5, [0.0, 0.25, 0.5, 0.25, 0.0], 0.0),
        # 0, 1, 2 become 3, 4, 5; the last one goes to 4.
        ([0.5, 0.25, 0.25, 0.0, 0.0], 3.0, 1.0, [0.0, 0.0, 0.0, 0.5, 0.5], 0.25),
        # 0 and 1 become -1.5 and -0.5, 4 becomes 2.5.
        ([0.25, 0.25, 0.0, 0.0, 0.5], -1.5, 1.0, [0.5, 0.0, 0.25, 0.25, 0.0], 0.5),
        # Terminated beyond the support.
        ([0.2, 0.2, 0.2, 0.2, 0.2], 7.0, 0.0, [0.0, 0.0, 0.0, 0.0, 1.0], 1.0),
    ],
)
def test_projections_by_hand(
    probability: list[float], reward: float, discount: float, expected: list[float], beyond: float
) -> None:
    actual, outside = projected(probability, reward, discount)
    assert actual == pytest.approx(expected)
    assert outside == pytest.approx(beyond)


@pytest.mark.parametrize("count", [2, 5, 101])
@pytest.mark.parametrize("gamma", [1.0, 0.99, 0.5, 0.1, 1e-6])
def test_projections_agree_with_the_dense_formula(count: int, gamma: float) -> None:
    rng = torch.Generator().manual_seed(count)
    support = Support(-3.0, 5.0, count)
    probability = torch.randn(200, count, generator=rng, dtype=torch.float64).softmax(dim=-1)
    reward = 4.0 * torch.randn(200, generator=rng, dtype=torch.float64)
    discount = torch.where(torch.arange(200) % 3 == 0, 0.0, gamma).double()
    actual, beyond = project(probability, reward, discount, support, gamma)
    assert_close(actual, dense(probability, reward, discount, support), rtol=0.0, atol=1e-9)
    inside = beyond < 1e-12
    assert inside.any()
    mean = reward + discount * expected_value(probability, support)
    assert_close(expected_value(actual, support)[inside], mean[inside], rtol=0.0, atol=1e-9)


def test_numbers_that_are_not_finite_do_not_break_the_indices() -> None:
    reward = torch.tensor([float("nan"), float("inf"), -float("inf"), 3e38])
    made, _ = project(torch.full((4, 5), 0.2), reward, torch.full((4,), 0.9), FIVE, 0.9)
    assert made.shape == (4, 5)


def test_the_distribution_with_the_lower_mean_is_chosen_for_each_sample() -> None:
    # Means 1 and 3 of the first sample, 4 and 2 of the second.
    one = torch.tensor([[0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
    other = torch.tensor([[0.0, 0.0, 0.0, 1.0, 0.0], [0.5, 0.0, 0.0, 0.0, 0.5]])
    assert expected_value(torch.stack([one, other]), FIVE).tolist() == [[1.0, 4.0], [3.0, 2.0]]
    assert_close(lower_distribution(torch.stack([one, other]), FIVE), torch.stack([one[0], other[1]]))


def test_the_loss_is_the_sum_of_the_cross_entropies() -> None:
    logits = torch.log(torch.tensor([[[0.5, 0.5], [0.25, 0.75]], [[0.5, 0.5], [0.5, 0.5]]]))
    target = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    halves = -torch.log(torch.tensor(0.5))
    expected = (halves - torch.log(torch.tensor(0.75))) / 2.0 + halves
    assert_close(categorical_loss(logits, target), expected)
