"""Running statistics compared with numpy's over all data."""

import numpy as np
import pytest
import torch
from torch import Tensor

from ahac.nets.normalizer import Normalizer

SIZES = ([1000], [500, 500], [1] * 1000, [1, 9, 90, 900])


def data(seed: int = 0) -> Tensor:
    numbers = torch.randn(1000, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers * torch.tensor([0.1, 1.0, 50.0]) + torch.tensor([-2.0, 0.0, 300.0])


@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: f"{len(sizes)} batches")
def test_statistics_do_not_depend_on_the_batches(sizes: list[int]) -> None:
    normalizer, obs = Normalizer(3).double(), data()
    for batch in obs.split(sizes):
        normalizer.update(batch)
    # The initial mean 0 and variance 1 count as 1e-4 samples.
    mean = np.mean(obs.numpy(), axis=0)
    variance = np.var(obs.numpy(), axis=0)
    total = 1000.0 + 1e-4
    expected_mean = 1000.0 * mean / total
    expected_variance = (1e-4 + 1000.0 * variance) / total + 1e-4 * 1000.0 * mean**2 / total**2
    assert normalizer.count.item() == pytest.approx(total, rel=1e-12)
    assert normalizer.mean.numpy() == pytest.approx(expected_mean, rel=1e-9)
    assert normalizer.variance.numpy() == pytest.approx(expected_variance, rel=1e-9)
    assert normalizer.mean.numpy() == pytest.approx(mean, rel=1e-6)


def test_normalized_data_has_mean_zero_and_variance_one() -> None:
    normalizer, obs = Normalizer(3), data().float()
    normalizer.update(obs)
    normalized = normalizer.frozen()(obs)
    assert normalized.mean(dim=0).abs().max() < 1e-3
    assert (normalized.var(dim=0) - 1.0).abs().max() < 5e-3


def test_a_frozen_normalizer_does_not_change() -> None:
    normalizer, probe = Normalizer(3), torch.ones(2, 3)
    normalizer.update(data(seed=0).float())
    frozen = normalizer.frozen()
    before = frozen(probe)
    normalizer.update(data(seed=1).float() + 5.0)
    assert torch.equal(frozen(probe), before)
    assert not torch.equal(normalizer.frozen()(probe), before)


def test_gradients_flow_to_the_observations_only() -> None:
    normalizer, probe = Normalizer(3), torch.ones(2, 3, requires_grad=True)
    normalizer.update(data().float())
    normalizer.frozen()(probe).sum().backward()
    assert probe.grad is not None
    assert (probe.grad - (normalizer.variance + 1e-5).rsqrt()).abs().max() < 1e-6
    assert not list(normalizer.parameters())


def test_a_disabled_normalizer_returns_observations_unchanged() -> None:
    normalizer, obs = Normalizer(3, enabled=False), data().float()
    normalizer.update(obs)
    assert torch.equal(normalizer.frozen()(obs), obs)


def test_initial_statistics_hardly_change_observations() -> None:
    obs = data().float()
    assert (Normalizer(3).frozen()(obs) - obs).abs().max() <= 1e-5 * obs.abs().max()


def test_training_continues_identically_from_a_state_dict() -> None:
    one, other = Normalizer(3), Normalizer(3)
    one.update(data(seed=0).float())
    other.load_state_dict(one.state_dict())
    for normalizer in (one, other):
        normalizer.update(data(seed=1).float())
    assert torch.equal(one.mean, other.mean)
    assert torch.equal(one.variance, other.variance)
    assert torch.equal(one.count, other.count)
