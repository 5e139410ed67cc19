"""A policy's actions on CUDA, step by step through a rollout: one native kernel forth, one back.

By torch's operations a step is some thirty small kernels, each of which takes longer to start than to run. Gradients
flow to the observations alone; those of the weights are taken for all steps at once, by torch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ahac.native.build import Kernel
from ahac.native.codegen import WARP, Target
from ahac.nets.actor import Actor
from ahac.nets.kernels.cuda_layers import Layers, kernel_source, round_up
from ahac.nets.normalizer import FrozenNormalizer

__all__ = ["CudaPolicy"]

BODY = (Path(__file__).parent / "cuda_policy.h").read_text(encoding="utf-8")
NAMES = ("obs", "centre", "noise", "deviation", "mirror", "action", "action_bar", "obs_bar")
ARRAYS: dict[str, str] = dict.fromkeys(NAMES, "real")
HEAD = "const real* const mirror = mirror_p;\n"
Context = Any
"""What autograd keeps from forth to back."""


class CudaPolicy:
    """Samples actions of one actor, in float32."""

    def __init__(self, actor: Actor) -> None:
        device = actor.log_std.device
        self.actor = actor
        self.forward, self.backward = self.kernels(actor, str(device))
        for kernel in (self.forward, self.backward):
            kernel.prepare()
        self._index = _index(actor).to(device)

    @staticmethod
    def supports(actor: Actor) -> bool:
        """Whether there are kernels for an actor like this, on a device like its own."""
        weight = actor.log_std
        return weight.is_cuda and weight.dtype == torch.float32 and _layers(actor).fits(weight.device)

    @staticmethod
    def kernels(actor: Actor, device: str) -> list[Kernel]:
        """Forth and back."""
        layers = _layers(actor)
        target = Target(device, float64=False, lane_bytes=16)
        return [
            Kernel(
                kernel_source(name, ARRAYS, layers, layers.shared, f"#define BACK {back}\n{HEAD}", BODY, through=True),
                target,
                "policy",
            )
            for back, name in enumerate(("actions", "actions adjoint"))
        ]

    def sampler(self, view: FrozenNormalizer) -> Callable[[Tensor, Tensor], Tensor]:
        """Actions of raw observations seen through a view and of standard normal noise, while no weight changes.

        No gradient reaches the weights.
        """
        with torch.no_grad():
            first, *others = (p for p in self.actor.net.parameters())
            weights = [view.scaled(first), *others, first.new_zeros(1)]
            mirror = torch.cat([x.flatten() for x in weights])[self._index]
            centre = view.mean if view.enabled else torch.zeros_like(view.mean)
            fixed = {"centre": centre, "deviation": self.actor.log_std.exp(), "mirror": mirror}
        # With the deviation among its inputs an action can be differentiated by, even one of observations that cannot.
        return lambda obs, noise: _Sample.apply(self, fixed, obs, noise, self.actor.log_std)

    def run(self, kernel: Kernel, tensors: dict[str, Tensor]) -> None:
        """Launch for as many worlds as there are observations."""
        stream = torch.cuda.current_stream(tensors["obs"].device).cuda_stream
        worlds = len(tensors["obs"])
        addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
        kernel.launch(addresses, items=worlds, stream=stream, blocks=-(-worlds // WARP))


class _Sample(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context, policy: CudaPolicy, fixed: dict[str, Tensor], obs: Tensor, noise: Tensor, _: Tensor
    ) -> Tensor:
        obs, noise, action = obs.contiguous(), noise.contiguous(), torch.empty_like(noise)
        policy.run(policy.forward, {**fixed, "obs": obs, "noise": noise, "action": action})
        ctx.policy = policy
        ctx.fixed = fixed
        ctx.save_for_backward(obs, noise)
        return action

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Context, action_bar: Tensor) -> tuple[None, None, Tensor, None, None]:
        obs, noise = ctx.saved_tensors
        obs_bar = torch.empty_like(obs)
        given = {"obs": obs, "noise": noise, "action_bar": action_bar.contiguous(), "obs_bar": obs_bar}
        ctx.policy.run(ctx.policy.backward, {**ctx.fixed, **given})
        return None, None, obs_bar, None, None


def _linears(actor: Actor) -> list[nn.Linear]:
    return [layer for layer in actor.net if isinstance(layer, nn.Linear)]


def _layers(actor: Actor) -> Layers:
    linears = _linears(actor)
    return Layers((linears[0].in_features, *(layer.out_features for layer in linears)))


def _index(actor: Actor) -> Tensor:
    """Where each number of the mirror is among all weights in a row, and a zero behind them for what only fills up."""
    counts = [p.numel() for p in actor.net.parameters()]
    ends = torch.tensor(counts).cumsum(0).tolist()
    numbers = [torch.arange(end - count, end) for count, end in zip(counts, ends, strict=True)]
    parts: list[Tensor] = []
    for k, layer in enumerate(_linears(actor)):
        weight, bias, *norm = numbers[4 * k : 4 * k + 4]
        weight = weight.view(layer.out_features, layer.in_features)
        scale, shift = norm or (bias[:0], bias[:0])
        for part, count in ((weight.T, round_up(layer.out_features)), (weight, round_up(layer.in_features))):
            parts.append(functional.pad(part, (0, count - part.shape[1]), value=ends[-1]).flatten())
        parts += [
            functional.pad(x, (0, round_up(layer.out_features) - len(x)), value=ends[-1]) for x in (bias, scale, shift)
        ]
    return torch.cat(parts)
