"""The CUDA kernels for critic training compared with torch: emulated on the CPU, and on a GPU."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ahac.nets.critic import Critic
from ahac.nets.critic_training import TorchEpoch, make_critic_epoch
from ahac.nets.kernels import cuda_critic, cuda_wide_critic
from ahac.nets.kernels.cuda_critic import CudaKernelEpoch
from ahac.nets.kernels.cuda_wide_critic import CudaWideEpoch
from ahac.nets.optim import make_adam, shac_adam, step_only_if
from support.emulated_cuda import emulate
from support.marks import keep

ROUNDING = 5e-5
"""Relative; float32 sums in another order, and products of tensor cores that lose two bits, over a few Adam steps."""


def make_critic(
    hidden: tuple[int, ...], members: int = 2, obs: int = 5, device: str = "cuda", function: str = "elu"
) -> Critic:
    """Return a critic whose biases, scales and shifts differ from their initial zeros and ones."""
    generator = torch.Generator().manual_seed(0)
    critic = Critic(obs, hidden, members=members, rng=generator, function=function)
    with torch.no_grad():
        critic.theta.add_(torch.randn(critic.theta.shape, generator=generator), alpha=0.1)
    return critic.to(device)


def cpu_samples(count: int, obs: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    """Return states, targets and a row order."""
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(count, obs, generator=generator)
    return states, 5.0 * states[:, 0].sin() + 2.0, torch.randperm(count, generator=generator)


def samples(count: int, obs: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    states, targets, order = cpu_samples(count, obs)
    return states.cuda(), targets.cuda(), order.cuda()


def assert_close(actual: Tensor, expected: Tensor) -> None:
    assert (actual.double() - expected.double()).abs().max() < ROUNDING * expected.abs().max()


def assert_matches_torch(
    fast: CudaKernelEpoch | CudaWideEpoch, slow: TorchEpoch, data: tuple[Tensor, Tensor, Tensor], minibatches: int
) -> None:
    """Compare a few epochs, torch's in float64."""
    x, y, order = data
    actual = fast.critic.theta
    expected = slow.critic.theta
    for _ in range(3):
        assert_close(fast(x, y, order, minibatches), slow(x.double(), y.double(), order, minibatches))
        assert expected.grad is not None
        assert actual.grad is not None
        assert_close(actual.grad, expected.grad)
    # Adam divides by gradients as small as rounding errors: a few weights differ by a part of its step, 2e-3.
    difference = (actual - expected).abs()
    assert difference.max() < 1e-3
    assert (difference > 2e-4).double().mean() < 1e-3
    for name, value in slow.optimizer.state[expected].items():
        assert_close(fast.optimizer.state[actual][name], value)


def assert_matches_on_gpu(
    implementation: type[CudaKernelEpoch | CudaWideEpoch],
    critic: Critic,
    data: tuple[Tensor, Tensor, Tensor],
    minibatches: int,
    max_grad_norm: float | None,
) -> None:
    reference = deepcopy(critic).double()
    fast = implementation(critic, shac_adam(critic, 2e-3), max_grad_norm)
    slow = TorchEpoch(reference, shac_adam(reference, 2e-3), max_grad_norm)
    assert_matches_torch(fast, slow, data, minibatches)


@pytest.mark.parametrize(
    "hidden", [(9,), *(pytest.param(x, marks=pytest.mark.extended) for x in [(64, 64), (20, 33, 17)])]
)
def test_kernels_compile_without_a_gpu(hidden: tuple[int, ...], tmp_path: Path) -> None:
    critic = make_critic(hidden, device="cpu")
    for kernel in CudaKernelEpoch.kernels(critic, torch.optim.Adam(critic.parameters()), 1.0, "cuda:0"):
        kernel.compile_for(90, tmp_path / kernel.source.name)
        assert list((tmp_path / kernel.source.name).iterdir())


@pytest.mark.extended
@pytest.mark.parametrize(
    ("hidden", "count", "minibatches", "max_grad_norm", "function", "weight_decay"),
    keep(2, [((20, 33), 67, 1, 0.5, "elu", 0.0), ((17,), 40, 1, None, "silu", 0.01), ((9,), 290, 2, None, "elu", 0.0)]),
)
def test_emulated_kernels_match_torch(
    hidden: tuple[int, ...],
    count: int,
    minibatches: int,
    max_grad_norm: float | None,
    function: str,
    weight_decay: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emulate(cuda_critic, monkeypatch)
    critic = make_critic(hidden, device="cpu", function=function)
    reference = deepcopy(critic).double()

    def adam(network: Critic) -> torch.optim.Adam:
        learning_rate = torch.tensor(2e-3)
        return make_adam(network.parameters(), learning_rate, betas=(0.7, 0.95), weight_decay=weight_decay)

    fast = CudaKernelEpoch(critic, adam(critic), max_grad_norm)
    slow = TorchEpoch(reference, adam(reference), max_grad_norm)
    data = cpu_samples(count)
    assert_matches_torch(fast, slow, data, minibatches)
    before = critic.theta.detach().clone()
    with step_only_if(torch.tensor(False), fast.optimizer):
        fast(*data, minibatches)
    assert torch.equal(critic.theta.detach(), before)
    assert fast.optimizer.state[critic.theta]["step"].item() == 3.0 * minibatches


@pytest.mark.parametrize(
    ("hidden", "count", "minibatches", "max_grad_norm", "function", "weight_decay"),
    [
        ((40, 33), 67, 1, 0.5, "elu", 0.0),
        ((33,), 40, 1, None, "silu", 0.01),
        pytest.param((9,), 290, 2, None, "elu", 0.0, marks=pytest.mark.extended),
    ],
)
def test_emulated_wide_kernels_match_torch(
    hidden: tuple[int, ...],
    count: int,
    minibatches: int,
    max_grad_norm: float | None,
    function: str,
    weight_decay: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emulate(cuda_wide_critic, monkeypatch)
    critic = make_critic(hidden, device="cpu", function=function)
    reference = deepcopy(critic).double()
    fast = CudaWideEpoch(critic, shac_adam(critic, 2e-3, weight_decay), max_grad_norm)
    slow = TorchEpoch(reference, shac_adam(reference, 2e-3, weight_decay), max_grad_norm)
    assert_matches_torch(fast, slow, cpu_samples(count), minibatches)


def test_wide_kernels_compile_without_a_gpu(tmp_path: Path) -> None:
    hidden, head = CudaWideEpoch.kernels(make_critic((400,), device="cpu"), "cuda:0")
    for number, kernel in enumerate((*hidden[0], head)):
        kernel.compile_for(90, tmp_path / str(number))
        assert list((tmp_path / str(number)).iterdir())


def test_critics_on_the_cpu_are_not_supported() -> None:
    assert not CudaKernelEpoch.supports(make_critic((8,), device="cpu"))
    assert not CudaWideEpoch.supports(make_critic((400, 200, 100), device="cpu"))


@pytest.mark.gpu
def test_unsupported_critics_use_torch() -> None:
    def implementation(critic: Critic) -> type:
        return type(make_critic_epoch(critic, shac_adam(critic, 1e-3), 1.0))

    assert implementation(make_critic((64, 64))) is CudaKernelEpoch
    assert implementation(make_critic((400, 200, 100))) is CudaWideEpoch
    assert implementation(make_critic(())) is TorchEpoch
    assert implementation(make_critic((64, 64)).double()) is TorchEpoch
    assert implementation(make_critic((64, 64, 4000))) is TorchEpoch


@pytest.mark.gpu
@pytest.mark.parametrize("max_grad_norm", [None, 1e-3, 1.0])
@pytest.mark.parametrize(
    ("hidden", "obs", "count", "minibatches", "members"),
    [
        ((7,), 5, 19, 4, 1),
        ((33, 17), 5, 101, 3, 2),
        ((64, 64), 37, 2048, 4, 2),
        ((256, 128), 76, 700, 4, 2),
        ((256, 256), 226, 512, 4, 2),
        ((70, 20, 9), 11, 50, 2, 3),
    ],
)
def test_epochs_match_torch(
    hidden: tuple[int, ...], obs: int, count: int, minibatches: int, members: int, max_grad_norm: float | None
) -> None:
    # Widths and row counts that fill warps and tiles, and some that do not.
    assert_matches_on_gpu(
        CudaKernelEpoch, make_critic(hidden, members, obs), samples(count, obs), minibatches, max_grad_norm
    )


@pytest.mark.gpu
@pytest.mark.parametrize("max_grad_norm", [None, 1e-3, 1.0])
@pytest.mark.parametrize(
    ("hidden", "obs", "count", "minibatches", "members"),
    [((7,), 5, 19, 4, 1), ((400, 200, 100), 37, 2048, 4, 2), ((256, 256), 226, 512, 4, 2), ((70, 20, 9), 11, 50, 2, 3)],
)
def test_wide_epochs_match_torch(
    hidden: tuple[int, ...], obs: int, count: int, minibatches: int, members: int, max_grad_norm: float | None
) -> None:
    assert_matches_on_gpu(
        CudaWideEpoch, make_critic(hidden, members, obs), samples(count, obs), minibatches, max_grad_norm
    )


@pytest.mark.gpu
@pytest.mark.parametrize(("implementation", "hidden"), [(CudaKernelEpoch, (64, 64)), (CudaWideEpoch, (400, 200, 100))])
def test_repetitions_are_bit_identical(
    implementation: type[CudaKernelEpoch | CudaWideEpoch], hidden: tuple[int, ...]
) -> None:
    results = []
    for _ in range(2):
        critic = make_critic(hidden, obs=37)
        epoch = implementation(critic, shac_adam(critic, 2e-3), 1.0)
        for _ in range(3):
            epoch(*samples(3000, 37), 4)
        results.append(critic.theta.detach().clone())
    assert torch.equal(*results)


@pytest.mark.gpu
@pytest.mark.parametrize("implementation", [CudaKernelEpoch, CudaWideEpoch])
def test_skipped_epochs_change_nothing(implementation: type[CudaKernelEpoch | CudaWideEpoch]) -> None:
    critic = make_critic((16, 16))
    optimizer = shac_adam(critic, 2e-3)
    epoch, data = implementation(critic, optimizer, 1.0), samples(64)
    epoch(*data, 4)
    moments = optimizer.state[critic.theta]
    before = [critic.theta.detach().clone(), *(x.clone() for x in moments.values())]
    with step_only_if(torch.tensor(False, device="cuda"), optimizer):
        epoch(*data, 4)
    assert all(torch.equal(a, b) for a, b in zip(before, [critic.theta.detach(), *moments.values()], strict=True))
    with step_only_if(torch.tensor(True, device="cuda"), optimizer):
        epoch(*data, 4)
    assert moments["step"].item() == 8.0
    assert not torch.equal(before[0], critic.theta.detach())
