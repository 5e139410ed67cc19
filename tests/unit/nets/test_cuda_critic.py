"""The descent by CUDA kernels: against torch's, by the kernels' source on the CPU, and on a GPU."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ahac.nets.critic import Critic
from ahac.nets.critic_training import TorchEpoch, make_critic_epoch
from ahac.nets.kernels import cuda_critic
from ahac.nets.kernels.cuda_critic import CudaKernelEpoch
from ahac.nets.optim import make_adam, shac_adam, step_only_if
from support.emulated_cuda import emulate
from support.marks import keep

ROUNDING = 2e-5
"""Relative; float32 sums in another order, over a few steps of Adam."""


def critic(hidden: tuple[int, ...], members: int = 2, obs: int = 5, device: str = "cuda") -> Critic:
    """Away from the special values that layers begin with."""
    generator = torch.Generator().manual_seed(0)
    made = Critic(obs, hidden, members=members, rng=generator)
    with torch.no_grad():
        made.theta.add_(torch.randn(made.theta.shape, generator=generator), alpha=0.1)
    return made.to(device)


def drawn(count: int, obs: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    """States, targets and an order."""
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(count, obs, generator=generator)
    return states, 5.0 * states[:, 0].sin() + 2.0, torch.randperm(count, generator=generator)


def samples(count: int, obs: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    states, targets, order = drawn(count, obs)
    return states.cuda(), targets.cuda(), order.cuda()


def close(got: Tensor, want: Tensor) -> None:
    assert (got.double() - want.double()).abs().max() < ROUNDING * want.abs().max()


def assert_like_torch(fast: CudaKernelEpoch, slow: TorchEpoch, data: tuple[Tensor, Tensor, Tensor], parts: int) -> None:
    """Over some passes, torch's in double precision."""
    (x, y, order), got, wanted = data, fast.critic.theta, slow.critic.theta
    for _ in range(3):
        close(fast(x, y, order, parts), slow(x.double(), y.double(), order, parts))
        assert wanted.grad is not None
        assert got.grad is not None
        close(got.grad, wanted.grad)
    # Adam divides by gradients as small as rounding makes them.
    assert (got - wanted).abs().max() < 2e-4
    for name, value in slow.optimizer.state[wanted].items():
        close(fast.optimizer.state[got][name], value)


@pytest.mark.parametrize(
    "hidden", [(9,), *(pytest.param(x, marks=pytest.mark.extended) for x in [(64, 64), (20, 33, 17)])]
)
def test_kernels_compile_for_gpus_that_are_not_here(hidden: tuple[int, ...], tmp_path: Path) -> None:
    made = critic(hidden, device="cpu")
    for kernel in CudaKernelEpoch.kernels(made, torch.optim.Adam(made.parameters()), 1.0, "cuda:0"):
        kernel.compile_for(90, tmp_path / kernel.source.name)
        assert list((tmp_path / kernel.source.name).iterdir())


@pytest.mark.extended
@pytest.mark.parametrize(
    ("hidden", "count", "parts", "max_norm"), keep(1, [((20, 33), 67, 1, 0.5), ((9,), 290, 2, None)])
)
def test_the_kernels_source_does_what_torch_does(
    hidden: tuple[int, ...], count: int, parts: int, max_norm: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulate(cuda_critic, monkeypatch)
    got = critic(hidden, device="cpu")
    wanted, rate = deepcopy(got).double(), torch.tensor(2e-3)
    fast = CudaKernelEpoch(got, make_adam(got.parameters(), rate, betas=(0.7, 0.95)), max_norm)
    slow = TorchEpoch(wanted, make_adam(wanted.parameters(), rate, betas=(0.7, 0.95)), max_norm)
    data = drawn(count)
    assert_like_torch(fast, slow, data, parts)
    before = got.theta.detach().clone()
    with step_only_if(torch.tensor(False), fast.optimizer):
        fast(*data, parts)
    assert torch.equal(got.theta.detach(), before)
    assert fast.optimizer.state[got.theta]["step"].item() == 3.0 * parts


def test_others_are_left_to_torch() -> None:
    assert not CudaKernelEpoch.supports(critic((8,), device="cpu"))


@pytest.mark.gpu
def test_who_descends() -> None:
    def chosen(made: Critic) -> type:
        return type(make_critic_epoch(made, shac_adam(made, 1e-3), 1.0))

    assert chosen(critic((64, 64))) is CudaKernelEpoch
    assert chosen(critic(())) is TorchEpoch
    assert chosen(critic((64, 64)).double()) is TorchEpoch
    assert chosen(critic((4000,))) is TorchEpoch


@pytest.mark.gpu
@pytest.mark.parametrize("max_norm", [None, 1e-3, 1.0])
@pytest.mark.parametrize(
    ("hidden", "obs", "count", "parts", "members"),
    [
        ((7,), 5, 19, 4, 1),
        ((33, 17), 5, 101, 3, 2),
        ((64, 64), 37, 2048, 4, 2),
        ((256, 128), 76, 700, 4, 2),
        ((256, 256), 226, 512, 4, 2),
        ((70, 20, 9), 11, 50, 2, 3),
    ],
)
def test_a_pass_is_torchs(
    hidden: tuple[int, ...], obs: int, count: int, parts: int, members: int, max_norm: float | None
) -> None:
    # Widths and rows that fill warps and tiles, and that do not.
    got = critic(hidden, members, obs)
    wanted = deepcopy(got).double()
    fast = CudaKernelEpoch(got, shac_adam(got, 2e-3), max_norm)
    slow = TorchEpoch(wanted, shac_adam(wanted, 2e-3), max_norm)
    assert_like_torch(fast, slow, samples(count, obs), parts)


@pytest.mark.gpu
def test_again_is_the_same_to_the_bit() -> None:
    ends = []
    for _ in range(2):
        made = critic((64, 64), obs=37)
        fit = CudaKernelEpoch(made, shac_adam(made, 2e-3), 1.0)
        for _ in range(3):
            fit(*samples(3000, 37), 4)
        ends.append(made.theta.detach().clone())
    assert torch.equal(*ends)


@pytest.mark.gpu
def test_nothing_moves_where_it_should_not() -> None:
    made = critic((16, 16))
    steps = shac_adam(made, 2e-3)
    fit, data = CudaKernelEpoch(made, steps, 1.0), samples(64)
    fit(*data, 4)
    moments = steps.state[made.theta]
    before = [made.theta.detach().clone(), *(x.clone() for x in moments.values())]
    with step_only_if(torch.tensor(False, device="cuda"), steps):
        fit(*data, 4)
    assert all(torch.equal(a, b) for a, b in zip(before, [made.theta.detach(), *moments.values()], strict=True))
    with step_only_if(torch.tensor(True, device="cuda"), steps):
        fit(*data, 4)
    assert moments["step"].item() == 8.0
    assert not torch.equal(before[0], made.theta.detach())
