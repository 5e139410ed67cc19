"""One epoch of critic training on CUDA for wide networks: torch's matrix products with native kernels in between.

A block of `cuda_critic.py` takes a tile of rows through all layers, and reads all weights for it. That is fast as long
as the weights are few. Here each layer is a matrix product of all rows and of all members at once, and one kernel does
everything between two products: some 25 launches per minibatch, where torch alone takes about eighty.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ahac.native.build import Kernel
from ahac.native.codegen import WARP, Target
from ahac.native.source import Source
from ahac.nets.critic import Critic, Hidden
from ahac.nets.kernels.cuda_layers import defines, pointers
from ahac.nets.mlp import LAYER_NORM_EPS
from ahac.nets.optim import clip_rows

__all__ = ["MIN_WEIGHTS", "CudaWideEpoch"]

BODY = (Path(__file__).parent / "cuda_wide.h").read_text(encoding="utf-8")
ARRAYS = {"order": "const long long"} | dict.fromkeys(("theta", "target", "y", "x", "statistics", "partial"), "real")
MIN_WEIGHTS = 100_000
"""Per member; smaller critics are faster in `cuda_critic.py`, if it supports them."""
MAX_WIDTH = 1024
"""Of a hidden layer; a lane keeps every 32nd column in registers."""
WARPS = 8
ROWS = 32
"""Rows per block; sums over the rows of a block are added up afterwards."""


class _Passes(NamedTuple):
    """Kernels of a hidden layer."""

    forward: Kernel
    backward: Kernel


class CudaWideEpoch:
    """Trains a float32 critic on CUDA with torch's optimizer, all members in parallel."""

    max_in_flight = 1

    def __init__(self, critic: Critic, optimizer: torch.optim.Optimizer, max_grad_norm: float | None) -> None:
        self.critic = critic
        self.optimizer = optimizer
        self.max_grad_norm = max_grad_norm
        self._hidden, self._head = self.kernels(critic, str(critic.theta.device))
        for kernel in (*(kernel for passes in self._hidden for kernel in passes), self._head):
            kernel.prepare()

    @staticmethod
    def supports(critic: Critic) -> bool:
        """Whether the kernels can train this critic: float32, on CUDA, with hidden layers of usual widths."""
        theta, hidden = critic.theta, critic.widths[1:-1]
        if not theta.is_cuda or theta.dtype != torch.float32 or not hidden:
            return False
        return max(hidden) <= MAX_WIDTH

    @staticmethod
    def kernels(critic: Critic, device: str) -> tuple[list[_Passes], Kernel]:
        """Return the kernels of the hidden layers, and that of the last layer and the loss."""
        target = Target(device, float64=False, lane_bytes=16)

        def kernel(number: int, width: int, offsets: tuple[int, int, int]) -> Kernel:
            return Kernel(_source(critic, number, width, offsets), target, "critic")

        hidden: list[_Passes] = []
        start = 0
        for inputs, width in zip(critic.widths[:-2], critic.widths[1:-1], strict=True):
            bias = start + inputs * width
            offsets = (bias, bias + width, bias + 2 * width)
            hidden.append(_Passes(kernel(0, width, offsets), kernel(2, width, offsets)))
            start = bias + 3 * width
        width = critic.widths[-2]
        return hidden, kernel(1, width, (start + width, start, start))

    def __call__(self, obs: Tensor, target: Tensor, order: Tensor, minibatches: int) -> Tensor:
        """See `ahac.nets.critic_training.CriticEpoch`."""
        theta = self.critic.theta
        if theta.grad is None:
            theta.grad = torch.zeros_like(theta)
        target, order = target.contiguous(), order.to(theta.device, torch.int64).contiguous()
        total = theta.new_zeros(self.critic.members)
        for rows in order.tensor_split(minibatches):
            with torch.no_grad():
                total += self._set_gradient(obs, target, rows)
                clip_rows(theta.grad, self.max_grad_norm)
            self.optimizer.step()
        return total / minibatches

    def _set_gradient(self, obs: Tensor, target: Tensor, rows: Tensor) -> Tensor:
        """Set the gradient of the mean squared errors on these rows; return the [M] errors."""
        members, count = self.critic.members, len(rows)
        theta = self.critic.theta.detach()
        gradient = self.critic.theta.grad
        assert gradient is not None
        layers, _ = self.critic.layers(theta)
        gradients, head_gradient = self.critic.layers(gradient)
        fixed = {"theta": theta, "order": rows, "target": target}
        tiles = members * -(-count // ROWS)
        inputs = [obs.index_select(0, rows).expand(members, -1, -1)]
        saved: list[dict[str, Tensor]] = []
        for layer, passes in zip(layers, self._hidden, strict=True):
            y = torch.bmm(inputs[-1], layer.weight)
            x = torch.empty_like(y)
            saved.append({"y": y, "x": x, "statistics": theta.new_empty(members * count, 2)})
            _launch(passes.forward, {**fixed, **saved[-1]}, count, tiles)
            inputs.append(x)
        width = self.critic.widths[-2]
        partial = theta.new_empty(members, tiles // members, width + 2)
        # From here on, `x` of each layer is overwritten with gradients: with respect to it, then to its linear part.
        _launch(self._head, {**fixed, "x": inputs[-1], "partial": partial}, count, tiles)
        sums = partial.sum(dim=1)
        head_gradient.weight.copy_(sums[:, :width, None])
        head_gradient.bias.copy_(sums[:, width : width + 1])
        x_grad = inputs.pop()
        for layer, passes, kept, out in zip(*map(reversed, (layers, self._hidden, saved, gradients)), strict=True):
            partial = theta.new_empty(members, tiles // members, 3 * x_grad.shape[-1])
            _launch(passes.backward, {**fixed, **kept, "x": x_grad, "partial": partial}, count, tiles)
            _set_row_gradients(out, partial.sum(dim=1))
            torch.bmm(inputs.pop().transpose(1, 2), x_grad, out=out.weight)
            if inputs:
                x_grad = torch.bmm(x_grad, layer.weight.transpose(1, 2))
        return sums[:, width + 1]


def _set_row_gradients(out: Hidden, sums: Tensor) -> None:
    """Copy [M, 3 width] gradients of bias, scale and shift."""
    for to, values in zip((out.bias, out.scale, out.shift), sums.chunk(3, dim=1), strict=True):
        to.copy_(values)


def _launch(kernel: Kernel, tensors: dict[str, Tensor], rows: int, blocks: int) -> None:
    stream = torch.cuda.current_stream(tensors["theta"].device).cuda_stream
    addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
    kernel.launch(addresses, items=rows, stream=stream, blocks=blocks)


def _source(critic: Critic, number: int, width: int, offsets: tuple[int, int, int]) -> Source:
    """Return the source of one pass through one layer."""
    numbers = {
        "PASS": number,
        "WIDTH": width,
        "SIZE": critic.theta.shape[1],
        "WARPS": WARPS,
        "ROWS": ROWS,
        "SILU": int(critic.function == "silu"),
        **dict(zip(("BIAS", "SCALE", "SHIFT"), offsets, strict=True)),
        "NORM_EPS": f"real({LAYER_NORM_EPS})",
    }
    code = defines(numbers) + pointers(ARRAYS) + BODY
    shared = 0 if number == 0 else max(WARPS * width, 2 * WARPS)
    name = ("layer", "loss", "layer adjoint")[number]
    return Source(name, tuple(ARRAYS), code, 0, threads_per_world=WARPS, shared_words=-(-shared // WARP))
