"""Targets and losses of soft actor-critic, against numbers computed by hand."""

import pytest
import torch
from torch.testing import assert_close

from ahac.algos.parts.model_fit import sequence_errors, valid_mask
from ahac.algos.parts.temperature import Temperature
from ahac.algos.parts.twin_critic import TwinCritic
from ahac.nets.optim import make_adam
from ahac.nets.q_ensemble import QEnsemble
from ahac.nets.state_dicts import LearnedState, flatten
from ahac.rl.sac_losses import soft_target, temperature_loss, twin_loss, value_expansion

ALPHA = torch.tensor(0.5)


def test_targets_by_hand() -> None:
    reward, ended = torch.tensor([1.0, 1.0]), torch.tensor([0.0, 1.0])
    actual = soft_target(reward, ended, torch.tensor([4.0, 4.0]), torch.tensor([-2.0, -2.0]), ALPHA, 0.9)
    assert_close(actual, torch.tensor([1.0 + 0.9 * (4.0 + 1.0), 1.0]))


def test_each_members_gradient_is_independent_of_the_others() -> None:
    q = torch.tensor([[1.0, 3.0], [0.0, 0.0]], requires_grad=True)
    loss = twin_loss(q, torch.tensor([0.0, 1.0]))
    loss.backward()
    assert loss.item() == pytest.approx(0.5 * (1.0 + 4.0) / 2.0 + 0.5 * 1.0 / 2.0)
    assert_close(q.grad, torch.tensor([[0.5, 1.0], [0.0, -0.5]]))


def test_the_temperatures_gradient_by_hand() -> None:
    log_alpha = torch.tensor(0.3, requires_grad=True)
    log_prob = torch.tensor([1.0, 3.0], requires_grad=True)
    loss = temperature_loss(log_alpha, log_prob, -3.0)
    loss.backward()
    assert_close(log_alpha.grad, torch.tensor(-(2.0 - 3.0)))
    assert log_prob.grad is None, "the policy does not see it"


@pytest.mark.parametrize(("log_prob", "rises"), [(2.0, True), (-2.0, False)])
def test_the_temperature_rises_where_there_is_too_little_entropy(log_prob: float, rises: bool) -> None:
    made = Temperature(0.2, 1e-2, -1.0, torch.device("cpu"), torch.float32)
    assert made.alpha.item() == pytest.approx(0.2)
    for _ in range(10):
        made.update(torch.full((4,), log_prob))
    assert (made.alpha > 0.2) == rises
    other = Temperature(1.0, 1e-2, -1.0, torch.device("cpu"), torch.float32)
    LearnedState({"temperature": other.state_dict()}).load(flatten({"temperature": made.state_dict()}))
    made.update(torch.ones(4))
    other.update(torch.ones(4))
    assert torch.equal(made.log_alpha, other.log_alpha)


def test_target_networks_follow_by_tau() -> None:
    q = QEnsemble(2, 1, hidden=(4,), function="elu", rng=torch.Generator().manual_seed(0))
    made = TwinCritic(q, make_adam(q.parameters(), 1e-2), 0.25)
    old = [p.clone() for p in made.target.parameters()]
    made.update(torch.ones(3, 2), torch.ones(3, 1), torch.full((3,), 5.0))
    assert all(torch.equal(a, b) for a, b in zip(old, made.target.parameters(), strict=True))
    made.polyak_update()
    for before, now, expected in zip(old, made.target.parameters(), q.parameters(), strict=True):
        assert_close(now, 0.75 * before + 0.25 * expected)


def test_an_expanded_value_by_hand() -> None:
    reward = torch.tensor([[1.0], [2.0]])
    density = torch.tensor([[1.0], [-1.0], [2.0]])
    going = torch.tensor([[0.5], [1.0]])
    # 1 − 0.5·1 = 0.5;   0.9·0.5 (2 + 0.5) = 1.125;   0.9²·0.5 (10 − 0.5·2) = 3.645
    actual = value_expansion(reward, density, going, torch.tensor([10.0]), ALPHA, 0.9)
    assert_close(actual, torch.tensor([0.5 + 1.125 + 3.645]))


def test_without_steps_in_the_model_it_is_the_soft_value() -> None:
    actual = value_expansion(
        torch.zeros(0, 1), torch.tensor([[2.0]]), torch.zeros(0, 1), torch.tensor([10.0]), ALPHA, 0.9
    )
    assert_close(actual, torch.tensor([9.0]))


def test_a_sequence_counts_up_to_the_end_of_its_episode() -> None:
    done = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    expected = torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    assert torch.equal(valid_mask(done), expected)
    errors = sequence_errors(torch.zeros(3, 3, 2), torch.arange(1.0, 4.0)[:, None, None].expand(3, 3, 2), expected)
    assert_close(errors, torch.tensor([1.0, 4.0, 9.0]))
