"""The native descent against torch's, step by step; and that either goes on from the other."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor

from ahac.core import hardware
from ahac.core.errors import InputError
from ahac.nets.critic import Critic
from ahac.nets.kernels.critic_epoch import CpuKernelEpoch, CriticEpoch, TorchEpoch, make_critic_epoch
from support.marks import keep

ROUNDING = 2e-5
"""Relative; float32 sums in another order, over a few steps of Adam."""


def critic(hidden: tuple[int, ...], members: int, obs: int = 5) -> Critic:
    """Away from the special values that layers begin with."""
    generator = torch.Generator().manual_seed(0)
    made = Critic(obs, hidden, members=members, rng=generator)
    with torch.no_grad():
        made.theta.add_(torch.randn(made.theta.shape, generator=generator), alpha=0.1)
    return made


def adam(made: Critic, rate: float = 2e-3) -> torch.optim.Adam:
    return torch.optim.Adam(made.parameters(), lr=rate, betas=(0.7, 0.95), fused=True)


def samples(count: int, obs: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randn(count, obs, generator=generator)
    return drawn, 5.0 * drawn[:, 0].sin() + 2.0, torch.randperm(count, generator=generator)


def both(made: Critic, max_norm: float | None = 1.0) -> tuple[tuple[Critic, CriticEpoch], tuple[Critic, CriticEpoch]]:
    twin = deepcopy(made)
    return (made, TorchEpoch(made, adam(made), max_norm)), (twin, CpuKernelEpoch(twin, adam(twin), max_norm))


def close(got: Tensor, want: Tensor) -> None:
    assert (got - want).abs().max() < ROUNDING * want.abs().max()


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize(
    ("hidden", "count", "parts"),
    keep(
        3,
        [
            ((), 40, 4),
            ((33, 17), 101, 3),
            ((70, 20, 9), 50, 2),
            ((7,), 19, 4),
            ((16, 16), 96, 1),
            ((64, 64), 333, 4),
            ((400, 200, 100), 9, 9),
        ],
    ),
)
def test_a_pass_is_torchs(hidden: tuple[int, ...], count: int, parts: int, members: int) -> None:
    # Widths and rows that fill registers and tiles, and that do not.
    (wanted, slow), (got, fast) = both(critic(hidden, members))
    for _ in range(3):
        want, have = slow(*samples(count), parts), fast(*samples(count), parts)
        close(have, want)
        assert wanted.theta.grad is not None
        assert got.theta.grad is not None
        close(got.theta.grad, wanted.theta.grad)
    close(got.theta.detach(), wanted.theta.detach())


@pytest.mark.parametrize("max_norm", [None, 1e-3, 1e3])
def test_clipping_is_torchs_and_each_members_own(max_norm: float | None) -> None:
    (wanted, slow), (got, fast) = both(critic((8,), 2), max_norm)
    obs, target, order = samples(24)
    slow(obs, target, order, 1)
    fast(obs, target, order, 1)
    assert got.theta.grad is not None
    assert wanted.theta.grad is not None
    close(got.theta.grad, wanted.theta.grad)
    if max_norm == 1e-3:
        assert got.theta.grad.norm(dim=1).tolist() == pytest.approx([1e-3, 1e-3], rel=1e-3)


def test_either_goes_on_from_the_other() -> None:
    made = critic((16,), 2)
    first = adam(made)
    CpuKernelEpoch(made, first, 1.0)(*samples(64), 4)
    again = deepcopy(made)
    second = adam(again)
    second.load_state_dict(deepcopy(first.state_dict()))
    assert float(second.state[again.theta]["step"]) == 4.0
    CpuKernelEpoch(made, first, 1.0)(*samples(64), 4)
    TorchEpoch(again, second, 1.0)(*samples(64), 4)
    close(made.theta.detach(), again.theta.detach())


@pytest.mark.parametrize("width", [16, 32, 64])
def test_any_width_of_registers_gives_the_same(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    capability = torch.backends.cpu.get_cpu_capability()
    monkeypatch.setattr(hardware, "LANE_BYTES", {capability: width})
    (wanted, slow), (got, fast) = both(critic((20, 12), 1))
    close(fast(*samples(50), 2), slow(*samples(50), 2))
    close(got.theta.detach(), wanted.theta.detach())


def test_the_order_decides_who_is_seen_when() -> None:
    (_, _), (got, fast) = both(critic((8,), 1))
    (_, _), (other, twin) = both(critic((8,), 1))
    obs, target, order = samples(64)
    fast(obs, target, order, 4)
    twin(obs[order], target[order], torch.arange(64), 4)
    assert torch.equal(got.theta, other.theta)
    twin(obs, target, order.flip(0), 4)
    fast(obs, target, order, 4)
    assert not torch.equal(got.theta, other.theta)


def test_what_is_not_a_number_stays_visible() -> None:
    made = critic((8,), 1)
    obs, target, order = samples(32)
    target[3] = float("nan")
    assert CpuKernelEpoch(made, adam(made), 1.0)(obs, target, order, 4).isnan().all()


def test_float64_and_other_devices_are_left_to_torch() -> None:
    single, double = critic((8,), 1), critic((8,), 1).double()
    assert isinstance(make_critic_epoch(single, adam(single), 1.0), CpuKernelEpoch)
    assert isinstance(make_critic_epoch(double, adam(double), 1.0), TorchEpoch)


def test_an_order_of_any_kind_is_followed() -> None:
    obs, target, order = samples(64)
    results = []
    for kind in (order, order.to(torch.int32), order.repeat_interleave(2)[::2]):
        (_, _), (got, fast) = both(critic((8,), 1))
        fast(obs, target, kind, 4)
        results.append(got.theta.detach())
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_other_precisions_are_refused() -> None:
    (_, _), (_, fast) = both(critic((8,), 1))
    obs, target, order = samples(16)
    with pytest.raises(InputError, match=r"takes float32 on the CPU, got torch\.float64"):
        fast(obs.double(), target.double(), order, 2)
