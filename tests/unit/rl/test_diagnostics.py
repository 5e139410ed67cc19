"""Gradient diagnostics on small hand-written steps, and learning rate schedules."""

import math
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from ahac.core.env import Step
from ahac.rl.diagnostics import action_gradients, adjoint_norms, backward_to_steps, esnr, retain_step_gradients
from ahac.rl.schedule import linear_schedule, set_learning_rate


class State(NamedTuple):
    q: Tensor
    v: Tensor
    act: None = None


def steps(action: Tensor, gains: list[float]) -> list[Step]:
    """Two worlds with q <- gain q + a and v <- gain v, from rest; each step is rewarded by what it reaches."""
    flag = torch.zeros(2, dtype=torch.bool)
    nothing = torch.zeros(2)
    made = []
    place = State(torch.zeros(2, 1), torch.zeros(2, 1))
    for a, gain in zip(action, gains, strict=True):
        reached = State(gain * place.q + a, gain * place.v)
        made.append(
            Step(
                obs=reached.q,
                critic_obs=reached.q,
                final_obs=reached.q,
                final_critic_obs=reached.q,
                reward=reached.q[:, 0],
                terminated=flag,
                truncated=flag,
                diverged=flag,
                reward_terms=nothing,
                episode_return=nothing,
                episode_length=nothing,
                action=a,
                state=place,
                next_state=reached,
            )
        )
        place = reached
    return made


def test_gradients_at_actions_and_states_by_hand() -> None:
    action = torch.ones(3, 2, 1, requires_grad=True)
    made = steps(action, [5.0, 2.0, 3.0])
    for step in made:
        retain_step_gradients(step, states=True)
    # World 1 counts twice. r = a0, then 2 a0 + a1, then 3 (2 a0 + a1) + a2.
    (torch.stack([step.reward for step in made]) * torch.tensor([1.0, 2.0])).sum().backward()
    assert action_gradients(made)[..., 0].tolist() == [[9.0, 18.0], [4.0, 8.0], [1.0, 2.0]]
    # By the state reached first 1 + 2 + 6 = 9, by the second 1 + 3 = 4; root mean square over worlds of 1 and 2.
    assert adjoint_norms(made).tolist() == pytest.approx([9.0 * math.sqrt(2.5), 4.0 * math.sqrt(2.5)])


def test_gradients_are_left_at_steps_alone() -> None:
    weight = torch.ones(3, 2, 1, requires_grad=True)
    made = steps(1.0 * weight, [5.0, 2.0, 3.0])
    backward_to_steps((torch.stack([step.reward for step in made]) * torch.tensor([1.0, 2.0])).sum(), made, states=True)
    assert action_gradients(made)[..., 0].tolist() == [[9.0, 18.0], [4.0, 8.0], [1.0, 2.0]]
    assert adjoint_norms(made).tolist() == pytest.approx([9.0 * math.sqrt(2.5), 4.0 * math.sqrt(2.5)])
    assert weight.grad is None


def test_what_nothing_depends_on_is_left_a_gradient_of_zero() -> None:
    made = steps(torch.ones(2, 2, 1, requires_grad=True), [2.0, 2.0])
    backward_to_steps(made[0].reward.sum(), made, states=True)
    assert action_gradients(made)[..., 0].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert adjoint_norms(made).tolist() == [1.0]


def test_actions_that_nothing_depends_on_have_gradient_zero() -> None:
    action = torch.ones(2, 2, 1, requires_grad=True)
    made = steps(action, [2.0, 2.0])
    for step in made:
        retain_step_gradients(step, states=True)
    made[0].reward.sum().backward()
    assert action_gradients(made)[..., 0].tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_states_that_nothing_depends_on_have_norm_zero() -> None:
    made = steps(torch.ones(3, 2, 1), [2.0, 2.0, 2.0])
    assert adjoint_norms(made).tolist() == [0.0, 0.0]


def test_esnr_by_hand() -> None:
    # Gradients 1 and 3 of one action, 0 and −2 of another: means 2 and −1, variances 1 and 1.
    assert esnr(torch.tensor([[1.0, 0.0], [3.0, -2.0]])).item() == pytest.approx(2.5)


def test_esnr_of_a_known_distribution() -> None:
    drawn = torch.randn(5, 100_000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert esnr(3.0 + 2.0 * drawn).item() == pytest.approx(9.0 / 4.0, rel=0.02)


def test_esnr_of_gradients_all_alike_is_zero() -> None:
    assert esnr(torch.ones(3, 4, 2)).item() == 0.0


def test_esnr_does_not_depend_on_the_scale() -> None:
    gradients = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(1))
    assert esnr(1e3 * gradients).item() == pytest.approx(esnr(gradients).item(), rel=1e-5)


def test_a_learning_rate_of_zero_stays_zero() -> None:
    assert [linear_schedule(0.0, progress) for progress in (0.0, 0.5, 1.0)] == [0.0, 0.0, 0.0]


def test_linear_schedules_end_at_the_final_rate() -> None:
    assert linear_schedule(2e-3, 0.0) == 2e-3
    assert linear_schedule(2e-3, 1.0) == pytest.approx(1e-5)
    assert linear_schedule(1.0, 0.25, 0.0) == 0.75


def test_the_learning_rate_is_set_for_every_group_of_every_optimizer() -> None:
    tensors = [torch.zeros(1, requires_grad=True) for _ in range(3)]
    optimizers = [
        torch.optim.SGD([{"params": tensors[:1]}, {"params": tensors[1:2]}], lr=1.0),
        torch.optim.SGD(tensors[2:], lr=2.0),
    ]
    set_learning_rate(optimizers, 0.5)
    assert [group["lr"] for optimizer in optimizers for group in optimizer.param_groups] == [0.5] * 3
