"""Running statistics against numpy's over all data."""

import numpy as np
import pytest
import torch
from torch import Tensor

from ahac.nets.normalizer import Normalizer

SIZES = ([1000], [500, 500], [1] * 1000, [1, 9, 90, 900])


def data(seed: int = 0) -> Tensor:
    drawn = torch.randn(1000, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn * torch.tensor([0.1, 1.0, 50.0]) + torch.tensor([-2.0, 0.0, 300.0])


@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: f"{len(sizes)} batches")
def test_statistics_are_those_of_all_data_however_it_is_divided(sizes: list[int]) -> None:
    made, seen = Normalizer(3).double(), data()
    for part in seen.split(sizes):
        made.update(part)
    # The guess of mean 0 and variance 1 weighs 1e-4 samples of 1000.
    mean = np.mean(seen.numpy(), axis=0)
    variance = np.var(seen.numpy(), axis=0)
    total = 1000.0 + 1e-4
    wanted = 1000.0 * mean / total
    spread = (1e-4 + 1000.0 * variance) / total + 1e-4 * 1000.0 * mean**2 / total**2
    assert made.count.item() == pytest.approx(total, rel=1e-12)
    assert made.mean.numpy() == pytest.approx(wanted, rel=1e-9)
    assert made.variance.numpy() == pytest.approx(spread, rel=1e-9)
    assert made.mean.numpy() == pytest.approx(mean, rel=1e-6)


def test_what_is_seen_through_it_has_mean_zero_and_variance_one() -> None:
    made, seen = Normalizer(3), data().float()
    made.update(seen)
    found = made.frozen()(seen)
    assert found.mean(dim=0).abs().max() < 1e-3
    assert (found.var(dim=0) - 1.0).abs().max() < 5e-3


def test_a_view_is_of_one_moment() -> None:
    made, probe = Normalizer(3), torch.ones(2, 3)
    made.update(data(seed=0).float())
    view = made.frozen()
    before = view(probe)
    made.update(data(seed=1).float() + 5.0)
    assert torch.equal(view(probe), before)
    assert not torch.equal(made.frozen()(probe), before)


def test_gradients_flow_through_what_is_seen_alone() -> None:
    made, probe = Normalizer(3), torch.ones(2, 3, requires_grad=True)
    made.update(data().float())
    made.frozen()(probe).sum().backward()
    assert probe.grad is not None
    assert (probe.grad - (made.variance + 1e-5).rsqrt()).abs().max() < 1e-6
    assert not list(made.parameters())


def test_a_disabled_one_learns_nothing_and_changes_nothing() -> None:
    made, seen = Normalizer(3, enabled=False), data().float()
    made.update(seen)
    assert torch.equal(made.frozen()(seen), seen)


def test_one_that_has_seen_nothing_leaves_observations_nearly_as_they_are() -> None:
    seen = data().float()
    assert (Normalizer(3).frozen()(seen) - seen).abs().max() <= 1e-5 * seen.abs().max()


def test_saved_statistics_are_all_there_is() -> None:
    one, other = Normalizer(3), Normalizer(3)
    one.update(data(seed=0).float())
    other.load_state_dict(one.state_dict())
    for made in (one, other):
        made.update(data(seed=1).float())
    assert torch.equal(one.mean, other.mean)
    assert torch.equal(one.variance, other.variance)
    assert torch.equal(one.count, other.count)
