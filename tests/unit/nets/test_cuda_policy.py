"""Actions by CUDA kernels: against torch's, by the kernels' source on the CPU, and on a GPU."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from ahac.nets.actor import Actor
from ahac.nets.kernels import cuda_policy
from ahac.nets.kernels.cuda_policy import CudaPolicy
from ahac.nets.normalizer import FrozenNormalizer, Normalizer
from support.emulated_cuda import emulate
from support.marks import keep


def actor(obs: int, hidden: tuple[int, ...], actions: int, device: str = "cuda") -> Actor:
    """Away from the special values that layers begin with."""
    generator = torch.Generator().manual_seed(0)
    made = Actor(obs, actions, hidden, log_std=-0.5, rng=generator)
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.1)
    return made.to(device)


def view(obs: int, enabled: bool, device: str = "cuda") -> FrozenNormalizer:
    made = Normalizer(obs, enabled, torch.float32).to(device)
    made.update(3.0 * torch.randn(100, obs, generator=torch.Generator().manual_seed(1)).to(device) + 1.0)
    return made.frozen()


def samples(count: int, obs: int, actions: int, device: str = "cuda") -> tuple[Tensor, Tensor, Tensor]:
    """Observations, noise, and what pulls at actions."""
    generator = torch.Generator().manual_seed(2)
    sizes = (obs, actions, actions)
    seen, noise, bar = (torch.randn(count, size, generator=generator).to(device) for size in sizes)
    return seen.requires_grad_(), noise, bar


def assert_like_torch(made: Actor, seen_by: FrozenNormalizer, count: int, device: str) -> None:
    obs, actions = len(seen_by.mean), len(made.log_std)
    seen, noise, bar = samples(count, obs, actions, device)
    got = CudaPolicy(made).sampler(seen_by)(seen, noise)
    want = made.double()(seen_by(seen).double(), noise.double())
    assert (got - want).abs().max() < 1e-5
    (found,), (wanted,) = (torch.autograd.grad(x, seen, bar.to(x.dtype)) for x in (got, want))
    assert (found - wanted).abs().max() < 1e-5 * wanted.abs().max()


@pytest.mark.parametrize("hidden", [(128, 64, 32), pytest.param((), marks=pytest.mark.extended)])
def test_kernels_compile_for_gpus_that_are_not_here(hidden: tuple[int, ...], tmp_path: Path) -> None:
    for number, kernel in enumerate(CudaPolicy.kernels(actor(37, hidden, 8, "cpu"), "cuda:0")):
        kernel.compile_for(90, tmp_path / str(number))
        assert list((tmp_path / str(number)).iterdir())


@pytest.mark.parametrize(("obs", "hidden", "actions", "count"), keep(1, [(21, (40, 17), 13, 40), (5, (), 3, 33)]))
def test_the_kernels_source_does_what_torch_does(
    obs: int, hidden: tuple[int, ...], actions: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulate(cuda_policy, monkeypatch)
    assert_like_torch(actor(obs, hidden, actions, "cpu"), view(obs, enabled=True, device="cpu"), count, "cpu")


def test_others_are_left_to_torch() -> None:
    assert not CudaPolicy.supports(actor(5, (8,), 2, "cpu"))


@pytest.mark.gpu
def test_which_actors_it_takes() -> None:
    assert CudaPolicy.supports(actor(5, (8,), 2))
    assert not CudaPolicy.supports(actor(5, (8,), 2).double())
    assert not CudaPolicy.supports(actor(5, (4000,), 2))


@pytest.mark.gpu
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    ("obs", "hidden", "actions", "count"),
    [(5, (9,), 3, 40), (37, (128, 64, 32), 8, 512), (11, (), 4, 33), (76, (256, 128), 21, 64), (20, (40, 17), 13, 1)],
)
def test_actions_and_gradients_are_torchs(
    obs: int, hidden: tuple[int, ...], actions: int, count: int, enabled: bool
) -> None:
    assert_like_torch(actor(obs, hidden, actions), view(obs, enabled), count, "cuda")


@pytest.mark.gpu
def test_weights_that_changed_are_seen_by_the_next_sampler() -> None:
    made, seen_by = actor(5, (16,), 2), view(5, enabled=True)
    seen, noise, _ = samples(8, 5, 2)
    policy = CudaPolicy(made)
    policy.sampler(seen_by)(seen, noise)
    with torch.no_grad():
        next(made.parameters()).mul_(1.5)
    assert torch.allclose(policy.sampler(seen_by)(seen, noise), made(seen_by(seen), noise), atol=1e-5)
