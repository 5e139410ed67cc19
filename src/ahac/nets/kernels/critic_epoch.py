"""One pass of gradient descent over a critic's regression: by torch, or by native kernels.

Fitting the critic is most of the work of an iteration. The CPU's kernel takes a whole pass: no Python between
minibatches, and no layer's numbers leave the cache. It keeps its moments where torch's Adam has them, so either goes on
from the other.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.core.hardware import lane_bytes, usable_cores
from ahac.native.build import Kernel
from ahac.native.codegen import Target
from ahac.native.source import Source
from ahac.nets.critic import Critic
from ahac.nets.kernels.cuda_critic import CudaKernelEpoch

__all__ = ["CpuKernelEpoch", "CriticEpoch", "TorchEpoch", "make_critic_epoch"]

BODY = (Path(__file__).parent / "cpu_critic.h").read_text(encoding="utf-8")
TILE = 6
"""Rows by four registers that stay in registers while they are multiplied."""
ROWS = 8 * TILE
"""Rows that go through all layers together."""
ARRAYS = ("obs", "target", "order", "theta", "first", "second", "grad", "scratch", "numbers", "losses")


class CriticEpoch(Protocol):
    """Takes a critic down the gradient of its squared error."""

    max_in_flight: int
    """On CUDA, passes that may be queued before the host knows whether they are needed: it follows at that distance."""

    def __call__(self, obs: Tensor, target: Tensor, order: Tensor, minibatches: int) -> Tensor:
        """One pass over [B, obs] and [B] in that order, in so many minibatches; [M] mean losses of the members."""
        ...


class TorchEpoch:
    """On any device, in any precision, with any optimizer."""

    max_in_flight = 1

    def __init__(self, critic: Critic, optimizer: torch.optim.Optimizer, max_norm: float | None) -> None:
        self.critic = critic
        self.optimizer = optimizer
        self.max_norm = max_norm

    def __call__(self, obs: Tensor, target: Tensor, order: Tensor, minibatches: int) -> Tensor:
        """One pass; every member's gradient is clipped by its own norm."""
        total = obs.new_zeros(self.critic.members)
        for rows in order.tensor_split(minibatches):
            total += self.critic.regress(obs[rows], target[rows])
            if self.max_norm is not None and (grad := self.critic.theta.grad) is not None:
                grad *= (self.max_norm / (grad.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1.0)
            self.optimizer.step()
        return total / minibatches


class CpuKernelEpoch:
    """On the CPU, in float32, with Adam: members side by side on the machine's cores."""

    max_in_flight = 0

    def __init__(self, critic: Critic, optimizer: torch.optim.Adam, max_norm: float | None) -> None:
        self.critic = critic
        self.optimizer = optimizer
        self.max_norm = float("inf") if max_norm is None else max_norm
        self.target = Target("cpu", float64=False, lane_bytes=lane_bytes())
        source, scratch = _source(critic, self.target.lanes)
        self.kernel = Kernel(source, self.target, "critic")
        self.scratch = torch.empty(critic.members, scratch)
        self.threads = min(critic.members, usable_cores())
        self.kernel.prepare()

    def __call__(self, obs: Tensor, target: Tensor, order: Tensor, minibatches: int) -> Tensor:
        """One pass; every member's gradient is clipped by its own norm."""
        theta, losses = self.critic.theta, torch.empty(self.critic.members)
        if theta.grad is None:
            theta.grad = torch.zeros_like(theta)
        moments = self._moments()
        settings = self.optimizer.param_groups[0]
        done = float(moments["step"])
        numbers = torch.tensor(
            [float(settings["lr"]), *settings["betas"], settings["eps"], done, self.max_norm], dtype=torch.float64
        )
        if (obs.dtype, target.dtype) != (theta.dtype, theta.dtype) or obs.device.type != "cpu":
            raise InputError(
                f"a native fit takes float32 on the CPU, got {obs.dtype} and {target.dtype} on {obs.device}"
            )
        order = order.to(torch.int64).contiguous()
        tensors = (
            obs.contiguous(),
            target.contiguous(),
            order,
            theta,
            moments["exp_avg"],
            moments["exp_avg_sq"],
            theta.grad,
            self.scratch,
            numbers,
            losses,
        )
        addresses = {name: tensor.data_ptr() for name, tensor in zip(ARRAYS, tensors, strict=True)}
        self.kernel.launch(
            addresses, items=len(obs), count=minibatches, threads=self.threads, blocks=self.critic.members
        )
        moments["step"] += minibatches
        return losses

    def _moments(self) -> dict[str, Tensor]:
        """Adam's memory, begun as torch begins it."""
        theta = self.critic.theta
        state = self.optimizer.state[theta]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(theta), torch.zeros_like(theta)
        return state


def make_critic_epoch(critic: Critic, optimizer: torch.optim.Adam, max_norm: float | None) -> CriticEpoch:
    """The fastest, where there is a choice."""
    theta = critic.theta
    if CudaKernelEpoch.supports(critic):
        return CudaKernelEpoch(critic, optimizer, max_norm)
    native = theta.device.type == "cpu" and theta.dtype == torch.float32
    return (CpuKernelEpoch if native else TorchEpoch)(critic, optimizer, max_norm)


def _source(critic: Critic, lanes: int) -> tuple[Source, int]:
    """The kernel for a critic's shape, and how many numbers of scratch memory each member needs."""
    shape = list(pairwise(critic.widths))
    size = critic.theta.shape[1]
    # No more than: weights four times, and what a group of rows leaves behind, all padded.
    padded = [max(a, b) + 2 * max(lanes, TILE) for a, b in shape]
    scratch = sum(4 * p * p + 3 * ROWS * p + 16 * p for p in padded) + ROWS * (critic.widths[0] + 2 * lanes) + 1024
    rows = ", ".join(f"{{{a}, {b}}}" for a, b in shape)
    numbers = {
        "LAYERS": len(shape),
        "OBS": critic.widths[0],
        "SIZE": size,
        "SCRATCH": scratch,
        "TILE": TILE,
        "ROWS": ROWS,
    }
    constants = f"enum {{ {', '.join(f'{name} = {number}' for name, number in numbers.items())} }};\n"
    pointers = "".join(f"real* const {name}_p = (real*)args.address[{i}];\n" for i, name in enumerate(ARRAYS))
    pointers += "const int minibatches = args.count;\n"
    body = f"{constants}static constexpr int shape[LAYERS][2] = {{{rows}}};\n{pointers}{BODY}"
    return Source("fit", ARRAYS, body, 6 * size // lanes), scratch
