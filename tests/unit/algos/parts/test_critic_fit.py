"""Fits of a critic: when they stop, what they visit, and that they fit."""

import pytest
import torch
from torch import Tensor

from ahac.algos.parts.critic_fit import CriticFit, FitResult, has_plateaued
from ahac.nets.critic import Critic
from ahac.nets.critic_training import TorchEpoch, make_critic_epoch

SOUND = torch.tensor(True)


class Spy(Critic):
    """Stores the minibatches that it is given."""

    def __init__(self, members: int = 1) -> None:
        super().__init__(1, (), members=members, rng=torch.Generator().manual_seed(0))
        self.batches: list[tuple[Tensor, Tensor]] = []

    def losses(self, obs: Tensor, target: Tensor) -> Tensor:
        self.batches.append((obs.clone(), target.clone()))
        return super().losses(obs, target)


def fitted(  # noqa: PLR0913 - settings of a fit, keyword-only
    critic: Critic,
    obs: Tensor,
    target: Tensor,
    *,
    rate: float = 0.0,
    passes: int = 1,
    minibatches: int = 4,
    tolerance: float | None = None,
    max_norm: float | None = None,
    shuffle: bool = True,
) -> FitResult:
    optimizer = torch.optim.SGD(critic.parameters(), lr=rate)
    rng = torch.Generator().manual_seed(1)
    fit = CriticFit(
        TorchEpoch(critic, optimizer, max_norm),
        optimizer,
        epochs=passes,
        minibatches=minibatches,
        tolerance=tolerance,
        rng=rng,
        shuffle=shuffle,
    )
    return fit(obs, target, SOUND)


def samples(count: int) -> tuple[Tensor, Tensor]:
    """States 0, 1, 2, ... with ten times themselves as targets."""
    numbers = torch.arange(count, dtype=torch.float32)
    return numbers[:, None], 10.0 * numbers


# ---------------------------------------------------------------------------------------------------------- plateau


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([5.0, 4.0, 3.0, 2.0, 1.0, 1.0], False),  # |1 − 5| / 4 = 1
        ([1.7, 9.0, 0.0, 9.0, 1.0, 50.0], True),  # |1 − 1.7| / 4 = 0.175: ends of the five before the latest count
        ([1.9, 1.0, 1.0, 1.0, 1.0, 1.0], False),  # |1 − 1.9| / 4 = 0.225
        ([99.0, 1.0, 1.0, 1.0, 1.0, 1.1, 7.0], True),  # |1.1 − 1| / 4: only the last six count
        ([1.0, 1.0, 1.0, 1.0, 1.9, 1.0], False),  # a rising loss is not flat either
    ],
)
def test_plateau_by_hand(losses: list[float], expected: bool) -> None:
    assert bool(has_plateaued(torch.tensor(losses), 0.2)) is expected


def test_fits_stop_when_the_loss_has_plateaued_and_at_the_last_epoch() -> None:
    flat = fitted(Spy(), *samples(8), passes=64, tolerance=0.2)
    assert flat.epochs == 6, "six losses must be known"
    assert fitted(Spy(), *samples(8), passes=3).epochs == 3
    assert fitted(Spy(), *samples(8), passes=3, tolerance=0.2).epochs == 3


def test_nothing_is_fitted_to_invalid_targets() -> None:
    critic, optimizer = Spy(), torch.optim.SGD([torch.zeros(1)], lr=1.0)
    rng = torch.Generator().manual_seed(1)
    fit = CriticFit(TorchEpoch(critic, optimizer, None), optimizer, epochs=3, minibatches=4, tolerance=None, rng=rng)
    report = fit(*samples(8), ~SOUND)
    assert (report.epochs, bool(report.loss.isnan()), critic.batches) == (0, True, [])


# ------------------------------------------------------------------------------------------------------ minibatches


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("count", [16, 18, 2])
def test_every_epoch_visits_every_sample_once(count: int, shuffle: bool) -> None:
    critic, (obs, target) = Spy(), samples(count)
    fitted(critic, obs, target, passes=3, shuffle=shuffle)
    per_epoch = len(critic.batches) // 3
    assert per_epoch == min(4, count)
    for i in range(3):
        batches = critic.batches[i * per_epoch : (i + 1) * per_epoch]
        states, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
        assert torch.equal(targets, 10.0 * states[:, 0]), "states and targets have parted"
        assert torch.equal(states.sort(dim=0).values, obs)
        assert torch.equal(states, obs) is not shuffle or count < 3


def test_every_epoch_is_shuffled_differently() -> None:
    critic = Spy()
    fitted(critic, *samples(16), passes=2, minibatches=1)
    assert not torch.equal(critic.batches[0][0], critic.batches[1][0])


@pytest.mark.parametrize("count", [8, 9, 6])
def test_the_loss_of_an_epoch_is_the_mean_over_its_minibatches(count: int) -> None:
    # Weights do not change, so every minibatch has the loss of the same network; nine samples make three batches.
    critic = Spy()
    with torch.no_grad():
        critic.theta.zero_()
    obs = torch.zeros(count, 1)
    assert fitted(critic, obs, torch.full((count,), 3.0), minibatches=4).loss.item() == pytest.approx(9.0)


def test_the_loss_is_the_mean_of_the_members() -> None:
    critic = Spy(members=2)
    with torch.no_grad():
        critic.theta.zero_()
        critic.theta[1, 1] = 2.0  # the bias: errors are 3 and 1
    assert fitted(critic, torch.zeros(8, 1), torch.full((8,), 3.0)).loss.item() == pytest.approx(5.0)


def test_gradients_are_clipped_to_the_norm() -> None:
    critic = Spy()
    with torch.no_grad():
        critic.theta.zero_()
    # d/db (b − 30)² = −60 and no slope at zero states: a step of 0.5 along the clipped gradient of −1.
    fitted(critic, torch.zeros(8, 1), torch.full((8,), 30.0), rate=0.5, minibatches=1, max_norm=1.0)
    assert critic.theta[0].tolist() == pytest.approx([0.0, 0.5], abs=1e-5)
    fitted(critic, torch.zeros(8, 1), torch.full((8,), 30.5), rate=0.01, minibatches=1)
    assert critic.theta[0].tolist() == pytest.approx([0.0, 1.1], abs=1e-5)


# -------------------------------------------------------------------------------------------------------------- fit


def test_the_generator_alone_decides() -> None:
    def fit(seed: int) -> Tensor:
        critic = Critic(1, (8,), members=1, rng=torch.Generator().manual_seed(0))
        optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)
        rng = torch.Generator().manual_seed(seed)
        descend = make_critic_epoch(critic, optimizer, 1.0)
        CriticFit(descend, optimizer, epochs=3, minibatches=4, tolerance=None, rng=rng)(*samples(16), SOUND)
        return critic.theta.detach()

    assert torch.equal(fit(1), fit(1))
    assert not torch.equal(fit(1), fit(2))
