"""The actor's objective and the constraint, against numbers computed by hand."""

import pytest
import torch
from torch import Tensor

from ahac.rl.losses import constraint, short_horizon
from ahac.rl.rollout import Rollout

# World 0 terminates at its second step, world 1 runs out of time at its first.
REWARD = torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 4.0]])
VALUE = torch.tensor([[4.0, 6.0], [5.0, 2.0], [8.0, 8.0]])
TERMINATED = torch.tensor([[False, False], [True, False], [False, False]])
CUT = torch.tensor([[False, True], [True, False], [True, True]])


def rollout(reward: Tensor) -> Rollout:
    nothing = torch.zeros(3, 2, 1)
    return Rollout(
        raw_obs=nothing,
        obs=nothing,
        raw_critic_obs=nothing,
        critic_obs=nothing,
        final_critic_obs=nothing,
        reward=reward,
        terminated=TERMINATED,
        cut=CUT,
        stiff=torch.zeros_like(CUT),
        stiffness=None,
        steps=[],
    )


def test_short_horizon_by_hand() -> None:
    # World 0: 1 + 2/2 + 0, then 3 + 8/2: 9.   World 1: 1 + 6/2, then 2 + 4/2 + 8/4: 10.   Over six steps.
    loss = short_horizon(rollout(REWARD), torch.where(TERMINATED, 0.0, VALUE), gamma=0.5)
    assert loss.item() == pytest.approx(-19.0 / 6.0)


def test_its_gradient_is_the_weight_of_each_reward_and_of_each_last_value() -> None:
    reward = REWARD.clone().requires_grad_()
    value = VALUE.clone().requires_grad_()
    short_horizon(rollout(reward), torch.where(TERMINATED, 0.0, value), gamma=0.5).backward()
    assert reward.grad is not None
    assert value.grad is not None
    assert torch.equal(reward.grad, -torch.tensor([[1.0, 1.0], [0.5, 1.0], [1.0, 0.5]]) / 6.0)
    # Nothing where the task ended the episode, nor inside a segment.
    assert torch.equal(value.grad, -torch.tensor([[0.0, 0.5], [0.0, 0.0], [0.5, 0.25]]) / 6.0)


def test_constraint_by_hand() -> None:
    # 0.5 · (100 − 100) + 0.1 · (0 + 300) = 30, over two steps and two worlds.
    stiffness = torch.tensor([[600.0, 400.0], [500.0, 800.0]], requires_grad=True)
    phi = torch.tensor([0.5, 0.1])
    actual = constraint(stiffness, phi, 500.0)
    assert actual.item() == pytest.approx(7.5)
    actual.backward()
    assert stiffness.grad is not None
    assert torch.equal(stiffness.grad, torch.tensor([[0.5, 0.5], [0.1, 0.1]]) / 4.0)
