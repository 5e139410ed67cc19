"""Fits of a critic: when they stop, what they visit, and that they fit."""

import pytest
import torch
from torch import Tensor

from ahac.nets.critic import Critic
from ahac.nets.descent import TorchDescent, descent
from ahac.rl.critic_fit import CriticFit, Plateau, StopRule, never


class Spy(Critic):
    """Notes what it is shown; without weights to learn the minibatches are all there is to see."""

    def __init__(self, members: int = 1) -> None:
        super().__init__(1, (), members=members, rng=torch.Generator().manual_seed(0))
        self.seen: list[tuple[Tensor, Tensor]] = []

    def regress(self, obs: Tensor, target: Tensor) -> Tensor:
        self.seen.append((obs.clone(), target.clone()))
        return super().regress(obs, target)


def fitted(critic: Critic, *, rate: float = 0.0, passes: int = 1, minibatches: int = 4, stop: StopRule = never,
           max_norm: float | None = None, shuffle: bool = True) -> CriticFit:  # fmt: skip
    descend = TorchDescent(critic, torch.optim.SGD(critic.parameters(), lr=rate), max_norm)
    rng = torch.Generator().manual_seed(1)
    return CriticFit(descend, passes=passes, minibatches=minibatches, stop=stop, rng=rng, shuffle=shuffle)


def samples(count: int) -> tuple[Tensor, Tensor]:
    """States 0, 1, 2, ... with ten times themselves as targets."""
    numbers = torch.arange(count, dtype=torch.float32)
    return numbers[:, None], 10.0 * numbers


# ---------------------------------------------------------------------------------------------------------- plateau


def test_a_plateau_needs_six_passes() -> None:
    stop = Plateau(0.2)
    assert [stop([1.0] * count) for count in range(1, 8)] == [False] * 5 + [True] * 2


@pytest.mark.parametrize(
    ("losses", "wanted"),
    [
        ([5.0, 4.0, 3.0, 2.0, 1.0, 1.0], False),  # |1 − 5| / 4 = 1
        ([1.7, 9.0, 0.0, 9.0, 1.0, 50.0], True),  # |1 − 1.7| / 4 = 0.175: ends of the five before the latest count
        ([1.9, 1.0, 1.0, 1.0, 1.0, 1.0], False),  # |1 − 1.9| / 4 = 0.225
        ([99.0, 1.0, 1.0, 1.0, 1.0, 1.1, 7.0], True),  # |1.1 − 1| / 4: only the last six count
        ([1.0, 1.0, 1.0, 1.0, 1.9, 1.0], False),  # a rising loss is not flat either
    ],
)
def test_plateau_by_hand(losses: list[float], wanted: bool) -> None:
    assert Plateau(0.2)(losses) is wanted


def test_fits_stop_where_the_rule_says_and_at_the_last_pass() -> None:
    flat = fitted(Spy(), passes=64, stop=Plateau(0.2))(*samples(8))
    assert flat.passes == 6
    assert fitted(Spy(), passes=3)(*samples(8)).passes == 3


# ------------------------------------------------------------------------------------------------------ minibatches


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("count", [16, 18, 2])
def test_every_pass_visits_every_sample_once(count: int, shuffle: bool) -> None:
    critic, (obs, target) = Spy(), samples(count)
    fitted(critic, passes=3, shuffle=shuffle)(obs, target)
    per_pass = len(critic.seen) // 3
    assert per_pass == min(4, count)
    for i in range(3):
        batches = critic.seen[i * per_pass : (i + 1) * per_pass]
        states, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
        assert torch.equal(targets, 10.0 * states[:, 0]), "states and targets have parted"
        assert torch.equal(states.sort(dim=0).values, obs)
        assert torch.equal(states, obs) is not shuffle or count < 3


def test_passes_are_shuffled_anew() -> None:
    critic = Spy()
    fitted(critic, passes=2, minibatches=1)(*samples(16))
    assert not torch.equal(critic.seen[0][0], critic.seen[1][0])


@pytest.mark.parametrize("count", [8, 9, 6])
def test_the_loss_of_a_pass_is_the_mean_over_its_minibatches(count: int) -> None:
    # Weights stay as they are, so every minibatch has the loss of the same network; nine samples make three batches.
    critic = Spy()
    with torch.no_grad():
        critic.theta.zero_()
    obs = torch.zeros(count, 1)
    assert fitted(critic, minibatches=4)(obs, torch.full((count,), 3.0)).loss == pytest.approx(9.0)


def test_the_loss_is_the_mean_of_the_members() -> None:
    critic = Spy(members=2)
    with torch.no_grad():
        critic.theta.zero_()
        critic.theta[1, 1] = 2.0  # the bias: errors are 3 and 1
    assert fitted(critic)(torch.zeros(8, 1), torch.full((8,), 3.0)).loss == pytest.approx(5.0)


def test_gradients_are_clipped_to_the_norm() -> None:
    critic = Spy()
    with torch.no_grad():
        critic.theta.zero_()
    # d/db (b − 30)² = −60 and no slope at zero states: a step of 0.5 along the clipped gradient of −1.
    fitted(critic, rate=0.5, minibatches=1, max_norm=1.0)(torch.zeros(8, 1), torch.full((8,), 30.0))
    assert critic.theta[0].tolist() == pytest.approx([0.0, 0.5], abs=1e-5)
    fitted(critic, rate=0.01, minibatches=1)(torch.zeros(8, 1), torch.full((8,), 30.5))
    assert critic.theta[0].tolist() == pytest.approx([0.0, 1.1], abs=1e-5)


# -------------------------------------------------------------------------------------------------------------- fit


@pytest.mark.parametrize("members", [1, 2])
def test_a_critic_learns_a_smooth_function(members: int) -> None:
    generator = torch.Generator().manual_seed(2)
    critic = Critic(3, (32, 32), members=members, rng=generator)
    obs = torch.randn(256, 3, generator=generator)
    target = obs[:, 0].sin() + obs[:, 1] * obs[:, 2]
    descend = descent(critic, torch.optim.Adam(critic.parameters(), lr=3e-3), 1.0)
    fit = CriticFit(descend, passes=200, minibatches=4, stop=never, rng=generator)
    loss = fit(obs, target).loss
    assert loss < 0.05 * target.var().item()
    assert (critic.each(obs) - target).square().mean().item() == pytest.approx(loss, rel=0.5)


def test_the_generator_alone_decides() -> None:
    def fit(seed: int) -> Tensor:
        critic = Critic(1, (8,), members=1, rng=torch.Generator().manual_seed(0))
        descend = descent(critic, torch.optim.Adam(critic.parameters(), lr=1e-2), 1.0)
        rng = torch.Generator().manual_seed(seed)
        CriticFit(descend, passes=3, minibatches=4, stop=never, rng=rng)(*samples(16))
        return critic.theta.detach()

    assert torch.equal(fit(1), fit(1))
    assert not torch.equal(fit(1), fit(2))
