"""One epoch of critic training on the CPU, as one native kernel launch.

Training the critic is most of the work of an iteration. One launch takes a whole epoch, without Python between
minibatches, and activations stay in the cache. Adam's moments are those of torch's optimizer, so training can switch
between this kernel and torch at any epoch.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.core.hardware import lane_bytes, usable_cores
from ahac.native.build import Kernel
from ahac.native.codegen import Target
from ahac.native.source import Source
from ahac.nets.critic import Critic
from ahac.nets.mlp import LAYER_NORM_EPS

__all__ = ["CpuKernelEpoch"]

BODY = (Path(__file__).parent / "cpu_critic.h").read_text(encoding="utf-8")
TILE = 6
"""Rows of a tile of the matrix product; the tile, up to four registers wide, stays in registers."""
ROWS = 8 * TILE
"""Rows that go through all layers together."""
ARRAYS = ("obs", "target", "order", "theta", "exp_avg", "exp_avg_sq", "grad", "scratch", "settings", "losses")


class CpuKernelEpoch:
    """Trains a float32 critic with Adam on the CPU, its members in parallel on the machine's cores."""

    max_in_flight = 0

    def __init__(self, critic: Critic, optimizer: torch.optim.Adam, max_grad_norm: float | None) -> None:
        self.critic = critic
        self.optimizer = optimizer
        self.max_grad_norm = float("inf") if max_grad_norm is None else max_grad_norm
        self.target = Target("cpu", float64=False, lane_bytes=lane_bytes())
        source, scratch = _source(critic, self.target.lanes)
        self.kernel = Kernel(source, self.target, "critic")
        self.scratch = torch.empty(critic.members, scratch)
        self.threads = min(critic.members, usable_cores())
        self.kernel.prepare()

    @staticmethod
    def supports(critic: Critic) -> bool:
        """Whether the kernel can train this critic: any shape, float32, on the CPU."""
        return critic.theta.device.type == "cpu" and critic.theta.dtype == torch.float32

    def __call__(self, obs: Tensor, target: Tensor, order: Tensor, minibatches: int) -> Tensor:
        """See `ahac.nets.critic_training.CriticEpoch`."""
        theta, losses = self.critic.theta, torch.empty(self.critic.members)
        if theta.grad is None:
            theta.grad = torch.zeros_like(theta)
        moments = self._moments()
        adam = self.optimizer.param_groups[0]
        steps = float(moments["step"])
        settings = torch.tensor(
            [float(adam["lr"]), *adam["betas"], adam["eps"], steps, self.max_grad_norm, adam["weight_decay"]],
            dtype=torch.float64,
        )
        if (obs.dtype, target.dtype) != (theta.dtype, theta.dtype) or obs.device.type != "cpu":
            raise InputError(
                f"the CPU critic kernel expects float32 tensors on the CPU, got {obs.dtype} and {target.dtype} "
                f"on {obs.device}; convert them, or use TorchEpoch"
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
            settings,
            losses,
        )
        addresses = {name: tensor.data_ptr() for name, tensor in zip(ARRAYS, tensors, strict=True)}
        self.kernel.launch(
            addresses, items=len(obs), count=minibatches, threads=self.threads, blocks=self.critic.members
        )
        moments["step"] += minibatches
        return losses

    def _moments(self) -> dict[str, Tensor]:
        """Return Adam's state, initialized like torch does at the first step."""
        theta = self.critic.theta
        state = self.optimizer.state[theta]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(theta), torch.zeros_like(theta)
        return state


def _source(critic: Critic, lanes: int) -> tuple[Source, int]:
    """Return the kernel for a critic's shape, and the size of the scratch memory of each member."""
    shape = list(pairwise(critic.widths))
    size = critic.theta.shape[1]
    # Upper bound: four copies of the weights and the activations of a group of rows, all padded.
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
        "SILU": int(critic.function == "silu"),
    }
    constants = f"enum {{ {', '.join(f'{name} = {number}' for name, number in numbers.items())} }};\n"
    constants += f"static constexpr int shape[LAYERS][2] = {{{rows}}};\nconst real NORM_EPS = {LAYER_NORM_EPS};\n"
    pointers = "".join(f"real* const {name}_p = (real*)args.address[{i}];\n" for i, name in enumerate(ARRAYS))
    pointers += "const int minibatches = args.count;\n"
    return Source("training epoch", ARRAYS, f"{constants}{pointers}{BODY}", 6 * size // lanes), scratch
