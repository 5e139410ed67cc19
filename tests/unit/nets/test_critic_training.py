"""The CPU kernel compared with plain torch, and the choice between implementations."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor

from ahac.core import hardware
from ahac.core.errors import InputError
from ahac.nets.critic import Critic
from ahac.nets.critic_training import CriticEpoch, TorchEpoch, make_critic_epoch
from ahac.nets.kernels.cpu_critic import CpuKernelEpoch
from ahac.nets.optim import make_adam
from support.marks import keep

ROUNDING = 2e-5
"""Relative; float32 sums in another order, over a few Adam steps."""


def make_critic(hidden: tuple[int, ...], members: int, obs: int = 5) -> Critic:
    """Return a critic whose biases, scales and shifts differ from their initial zeros and ones."""
    generator = torch.Generator().manual_seed(0)
    critic = Critic(obs, hidden, members=members, rng=generator)
    with torch.no_grad():
        critic.theta.add_(torch.randn(critic.theta.shape, generator=generator), alpha=0.1)
    return critic


def adam(critic: Critic, learning_rate: float = 2e-3) -> torch.optim.Adam:
    return torch.optim.Adam(critic.parameters(), lr=learning_rate, betas=(0.7, 0.95), fused=True)


def samples(count: int, obs: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    """Return states, targets and a row order."""
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(count, obs, generator=generator)
    return states, 5.0 * states[:, 0].sin() + 2.0, torch.randperm(count, generator=generator)


def both(
    critic: Critic, max_grad_norm: float | None = 1.0
) -> tuple[tuple[Critic, CriticEpoch], tuple[Critic, CriticEpoch]]:
    """Return a critic trained by torch, and a copy trained by the kernel."""
    copy = deepcopy(critic)
    return (
        (critic, TorchEpoch(critic, adam(critic), max_grad_norm)),
        (copy, CpuKernelEpoch(copy, adam(copy), max_grad_norm)),
    )


def assert_close(actual: Tensor, expected: Tensor) -> None:
    assert (actual - expected).abs().max() < ROUNDING * expected.abs().max()


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize(
    ("hidden", "count", "minibatches"),
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
def test_epochs_match_torch(hidden: tuple[int, ...], count: int, minibatches: int, members: int) -> None:
    # Widths and row counts that fill registers and tiles, and some that do not.
    (reference, slow), (critic, fast) = both(make_critic(hidden, members))
    for _ in range(3):
        expected, losses = slow(*samples(count), minibatches), fast(*samples(count), minibatches)
        assert_close(losses, expected)
        assert reference.theta.grad is not None
        assert critic.theta.grad is not None
        assert_close(critic.theta.grad, reference.theta.grad)
    assert_close(critic.theta.detach(), reference.theta.detach())


@pytest.mark.parametrize("max_grad_norm", [None, 1e-3, 1e3])
def test_gradients_are_clipped_per_member_as_in_torch(max_grad_norm: float | None) -> None:
    (reference, slow), (critic, fast) = both(make_critic((8,), 2), max_grad_norm)
    obs, target, order = samples(24)
    slow(obs, target, order, 1)
    fast(obs, target, order, 1)
    assert critic.theta.grad is not None
    assert reference.theta.grad is not None
    assert_close(critic.theta.grad, reference.theta.grad)
    if max_grad_norm == 1e-3:
        assert critic.theta.grad.norm(dim=1).tolist() == pytest.approx([1e-3, 1e-3], rel=1e-3)


def test_torch_can_continue_from_the_kernel() -> None:
    critic = make_critic((16,), 2)
    optimizer = adam(critic)
    CpuKernelEpoch(critic, optimizer, 1.0)(*samples(64), 4)
    copy = deepcopy(critic)
    copied_optimizer = adam(copy)
    copied_optimizer.load_state_dict(deepcopy(optimizer.state_dict()))
    assert float(copied_optimizer.state[copy.theta]["step"]) == 4.0
    CpuKernelEpoch(critic, optimizer, 1.0)(*samples(64), 4)
    TorchEpoch(copy, copied_optimizer, 1.0)(*samples(64), 4)
    assert_close(critic.theta.detach(), copy.theta.detach())


def test_torch_overwrites_the_previous_gradient() -> None:
    obs, target, order = samples(24)
    critic, fresh = make_critic((8,), 2), make_critic((8,), 2)
    epoch = TorchEpoch(critic, adam(critic, 0.0), None)
    epoch(2.0 * obs, target, order, 1)
    epoch(obs, target, order, 1)
    TorchEpoch(fresh, adam(fresh, 0.0), None)(obs, target, order, 1)
    assert critic.theta.grad is not None
    assert fresh.theta.grad is not None
    assert torch.equal(critic.theta.grad, fresh.theta.grad)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_any_register_width_gives_the_same_result(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    capability = torch.backends.cpu.get_cpu_capability()
    monkeypatch.setattr(hardware, "LANE_BYTES", {capability: width})
    (reference, slow), (critic, fast) = both(make_critic((20, 12), 1))
    assert_close(fast(*samples(50), 2), slow(*samples(50), 2))
    assert_close(critic.theta.detach(), reference.theta.detach())


def test_the_order_assigns_rows_to_minibatches() -> None:
    (_, _), (critic, fast) = both(make_critic((8,), 1))
    (_, _), (other, other_fast) = both(make_critic((8,), 1))
    obs, target, order = samples(64)
    fast(obs, target, order, 4)
    other_fast(obs[order], target[order], torch.arange(64), 4)
    assert torch.equal(critic.theta, other.theta)
    other_fast(obs, target, order.flip(0), 4)
    fast(obs, target, order, 4)
    assert not torch.equal(critic.theta, other.theta)


def test_nan_targets_give_nan_losses() -> None:
    critic = make_critic((8,), 1)
    obs, target, order = samples(32)
    target[3] = float("nan")
    assert CpuKernelEpoch(critic, adam(critic), 1.0)(obs, target, order, 4).isnan().all()


def test_the_kernel_is_used_for_float32_and_torch_for_float64() -> None:
    single, double = make_critic((8,), 1), make_critic((8,), 1).double()
    assert isinstance(make_critic_epoch(single, adam(single), 1.0), CpuKernelEpoch)
    assert isinstance(make_critic_epoch(double, adam(double), 1.0), TorchEpoch)


def test_silu_and_weight_decay_match_torch() -> None:
    critic = Critic(5, (20, 9), members=2, rng=torch.Generator().manual_seed(0), function="silu")
    with torch.no_grad():
        critic.theta.mul_(3.0)  # so that activations saturate
    reference = deepcopy(critic).double()
    fast, slow = (
        make_critic_epoch(x, make_adam(x.parameters(), 2e-3, weight_decay=0.1), 1.0) for x in (critic, reference)
    )
    assert isinstance(fast, CpuKernelEpoch)
    assert isinstance(slow, TorchEpoch)
    x, y, order = samples(101)
    for _ in range(3):
        assert_close(fast(x, y, order, 3), slow(x.double(), y.double(), order, 3).float())
        assert critic.theta.grad is not None
        assert reference.theta.grad is not None
        assert_close(critic.theta.grad, reference.theta.grad.float())
    assert (critic.theta - reference.theta).abs().max() < 2e-4


def test_an_order_of_any_integer_type_or_stride_is_accepted() -> None:
    obs, target, order = samples(64)
    results = []
    for variant in (order, order.to(torch.int32), order.repeat_interleave(2)[::2]):
        (_, _), (critic, fast) = both(make_critic((8,), 1))
        fast(obs, target, variant, 4)
        results.append(critic.theta.detach())
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_the_kernel_rejects_other_precisions() -> None:
    (_, _), (_, fast) = both(make_critic((8,), 1))
    obs, target, order = samples(16)
    with pytest.raises(InputError, match=r"expects float32 tensors on the CPU, got torch\.float64"):
        fast(obs.double(), target.double(), order, 2)
