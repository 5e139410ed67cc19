"""The CUDA kernels for sampling actions compared with torch: emulated on the CPU, and on a GPU."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from ahac.nets.actor import Actor, SquashedGaussian, StateStdActor
from ahac.nets.kernels import cuda_policy
from ahac.nets.kernels.cuda_layers import Layers
from ahac.nets.kernels.cuda_policy import CudaPolicy
from ahac.nets.normalizer import FrozenNormalizer, Normalizer
from ahac.nets.rollout_policy import make_rollout_policy
from support.emulated_cuda import emulate
from support.marks import keep


def make_actor(obs: int, hidden: tuple[int, ...], actions: int, device: str = "cuda") -> Actor:
    """Return an actor whose scales and shifts differ from their initial ones and zeros."""
    generator = torch.Generator().manual_seed(0)
    actor = Actor(obs, actions, hidden, log_std=-0.5, rng=generator)
    with torch.no_grad():
        for weight in actor.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.1)
    return actor.to(device)


def make_normalizer(obs: int, enabled: bool, device: str = "cuda") -> FrozenNormalizer:
    normalizer = Normalizer(obs, enabled, torch.float32).to(device)
    normalizer.update(3.0 * torch.randn(100, obs, generator=torch.Generator().manual_seed(1)).to(device) + 1.0)
    return normalizer.frozen()


def samples(count: int, obs: int, actions: int, device: str = "cuda") -> tuple[Tensor, Tensor, Tensor]:
    """Return observations, noise, and a gradient with respect to the actions."""
    generator = torch.Generator().manual_seed(2)
    sizes = (obs, actions, actions)
    raw_obs, noise, action_grad = (torch.randn(count, size, generator=generator).to(device) for size in sizes)
    return raw_obs.requires_grad_(), noise, action_grad


def assert_matches_torch(actor: Actor, normalizer: FrozenNormalizer, count: int, device: str) -> None:
    obs, noise, action_grad = samples(count, len(normalizer.mean), len(actor.log_std), device)
    actions = CudaPolicy(actor).sampler(normalizer)(obs, noise)
    expected = actor.double()(normalizer(obs).double(), noise.double())
    assert (actions - expected).abs().max() < 1e-5
    gradients = [torch.autograd.grad(x, obs, action_grad.to(x.dtype))[0] for x in (actions, expected)]
    assert (gradients[0] - gradients[1]).abs().max() < 1e-5 * gradients[1].abs().max()


@pytest.mark.parametrize("hidden", [(128, 64, 32), pytest.param((), marks=pytest.mark.extended)])
def test_kernels_compile_without_a_gpu(hidden: tuple[int, ...], tmp_path: Path) -> None:
    for number, kernel in enumerate(CudaPolicy.kernels(make_actor(37, hidden, 8, "cpu"), "cuda:0")):
        kernel.compile_for(90, tmp_path / str(number))
        assert list((tmp_path / str(number)).iterdir())


@pytest.mark.parametrize(("obs", "hidden", "actions", "count"), keep(1, [(21, (40, 17), 13, 40), (5, (), 3, 33)]))
def test_emulated_kernels_match_torch(
    obs: int, hidden: tuple[int, ...], actions: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulate(cuda_policy, monkeypatch)
    normalizer = make_normalizer(obs, enabled=True, device="cpu")
    assert_matches_torch(make_actor(obs, hidden, actions, "cpu"), normalizer, count, "cpu")


def make_state_std_actor(obs: int, hidden: tuple[int, ...], actions: int, device: str) -> StateStdActor:
    """Return an actor whose log σ is at both of its bounds for some observations, and between them for others."""
    generator = torch.Generator().manual_seed(0)
    bounds = (-0.6, 0.1)
    actor = StateStdActor(obs, actions, hidden, function="silu", log_std=-0.2, bounds=bounds, rng=generator)
    with torch.no_grad():
        for weight in actor.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.1)
    return actor.to(device)


def assert_entropies_match_torch(
    actor: SquashedGaussian, normalizer: FrozenNormalizer, count: int, device: str
) -> None:
    assert isinstance(actor, Actor | StateStdActor)
    obs, noise, action_grad = samples(
        count,
        len(normalizer.mean),
        len(actor(normalizer(torch.zeros(1, len(normalizer.mean), device=device)))[0]),
        device,
    )
    entropy_grad = action_grad[:, 0] + 0.5
    found = CudaPolicy(actor, entropy=True).entropy_sampler(normalizer)(obs, noise)
    expected = actor.double().sample(normalizer(obs).double(), noise.double())
    for a, b in zip(found, expected, strict=True):
        assert (a - b).abs().max() < 2e-5 * b.abs().max().clamp(min=1.0)
    gradients = [
        torch.autograd.grad(outputs, obs, (action_grad.to(outputs[0].dtype), entropy_grad.to(outputs[0].dtype)))[0]
        for outputs in (found, expected)
    ]
    assert (gradients[0] - gradients[1]).abs().max() < 2e-5 * gradients[1].abs().max()


@pytest.mark.parametrize("state_std", [True, pytest.param(False, marks=pytest.mark.extended)])
def test_emulated_entropies_match_torch(state_std: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    emulate(cuda_policy, monkeypatch)
    make = make_state_std_actor if state_std else make_actor
    assert_entropies_match_torch(make(11, (20, 9), 3, "cpu"), make_normalizer(11, True, "cpu"), 37, "cpu")


@pytest.mark.parametrize(
    ("capability", "memory", "fits"), [((9, 0), 2**18, True), ((7, 5), 2**18, False), ((9, 0), 2**12, False)]
)
def test_layers_need_tensor_cores_and_shared_memory(
    capability: tuple[int, int], memory: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = SimpleNamespace(shared_memory_per_block_optin=memory)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    assert Layers((37, 64, 64, 1)).fits(torch.device("cuda")) == fits


def test_kernels_compute_entropies_only_if_made_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_policy, "Kernel", lambda *given: SimpleNamespace(prepare=lambda: None))
    actor, normalizer = make_actor(5, (8,), 2, "cpu"), make_normalizer(5, True, "cpu")
    with pytest.raises(AssertionError, match="entropy=True"):
        CudaPolicy(actor).entropy_sampler(normalizer)
    with pytest.raises(AssertionError, match="use entropy_sampler"):
        CudaPolicy(actor, entropy=True).sampler(normalizer)


def test_actors_on_the_cpu_sample_by_themselves() -> None:
    actor = make_actor(5, (8,), 2, "cpu")
    assert not CudaPolicy.supports(actor)
    assert make_rollout_policy(actor) is actor


@pytest.mark.gpu
def test_float32_actors_that_fit_are_supported() -> None:
    assert CudaPolicy.supports(make_actor(5, (8,), 2))
    assert isinstance(make_rollout_policy(make_actor(5, (8,), 2)), CudaPolicy)
    assert not CudaPolicy.supports(make_actor(5, (8,), 2).double())
    assert not CudaPolicy.supports(make_actor(5, (4000,), 2))


@pytest.mark.gpu
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    ("obs", "hidden", "actions", "count"),
    [(5, (9,), 3, 40), (37, (128, 64, 32), 8, 512), (11, (), 4, 33), (76, (256, 128), 21, 64), (20, (40, 17), 13, 1)],
)
def test_actions_and_gradients_match_torch(
    obs: int, hidden: tuple[int, ...], actions: int, count: int, enabled: bool
) -> None:
    assert_matches_torch(make_actor(obs, hidden, actions), make_normalizer(obs, enabled), count, "cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("make", [make_actor, make_state_std_actor])
@pytest.mark.parametrize(("obs", "hidden", "actions", "count"), [(5, (9,), 3, 40), (37, (400, 200, 100), 8, 512)])
def test_entropies_and_gradients_match_torch(
    make: Callable[..., SquashedGaussian], obs: int, hidden: tuple[int, ...], actions: int, count: int
) -> None:
    assert_entropies_match_torch(make(obs, hidden, actions, "cuda"), make_normalizer(obs, True), count, "cuda")


@pytest.mark.gpu
def test_the_next_sampler_uses_changed_weights() -> None:
    actor, normalizer = make_actor(5, (16,), 2), make_normalizer(5, enabled=True)
    obs, noise, _ = samples(8, 5, 2)
    policy = CudaPolicy(actor)
    policy.sampler(normalizer)(obs, noise)
    with torch.no_grad():
        next(actor.parameters()).mul_(1.5)
    assert torch.allclose(policy.sampler(normalizer)(obs, noise), actor(normalizer(obs), noise), atol=1e-5)
