"""Sampling of actions on CUDA: one native kernel per step of a rollout, and one per step of its backward pass.

In torch a step takes some thirty small kernels, each of which takes longer to launch than to run. Gradients flow to the
observations only; torch computes those of the weights for all steps at once.
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
NAMES = ("obs", "obs_mean", "noise", "std", "packed", "action", "action_grad", "obs_grad")
ARRAYS: dict[str, str] = dict.fromkeys(NAMES, "real")
HEAD = "const real* const packed = packed_p;\n"
Context = Any
"""Autograd's context, which carries values from the forward to the backward pass."""


class CudaPolicy:
    """Samples actions of a float32 actor on CUDA."""

    def __init__(self, actor: Actor) -> None:
        device = actor.log_std.device
        self.actor = actor
        self.forward, self.backward = self.kernels(actor, str(device))
        for kernel in (self.forward, self.backward):
            kernel.prepare()
        self._index = _packing_index(actor).to(device)

    @staticmethod
    def supports(actor: Actor) -> bool:
        """Whether the kernels can run this actor: float32, on CUDA, with ELU and layers that fit."""
        weight = actor.log_std
        if not weight.is_cuda or weight.dtype != torch.float32 or actor.function != "elu":
            return False
        return _layers(actor).fits(weight.device)

    @staticmethod
    def kernels(actor: Actor, device: str) -> list[Kernel]:
        """Return the kernels of the forward and the backward pass."""
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

    def sampler(self, normalizer: FrozenNormalizer) -> Callable[[Tensor, Tensor], Tensor]:
        """Return a function that samples actions from raw observations and noise, valid until the weights change.

        Gradients do not reach the weights.
        """
        with torch.no_grad():
            first, *others = (p for p in self.actor.net.parameters())
            weights = [normalizer.scaled(first), *others, first.new_zeros(1)]
            packed = torch.cat([x.flatten() for x in weights])[self._index]
            obs_mean = normalizer.mean if normalizer.enabled else torch.zeros_like(normalizer.mean)
            fixed = {"obs_mean": obs_mean, "std": self.actor.log_std.exp(), "packed": packed}
        # The log deviation is an input so that actions require a gradient even if the observations do not.
        return lambda obs, noise: _Sample.apply(self, fixed, obs, noise, self.actor.log_std)

    def run(self, kernel: Kernel, tensors: dict[str, Tensor]) -> None:
        """Launch a kernel on the given tensors, with one row per world."""
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
    def backward(ctx: Context, action_grad: Tensor) -> tuple[None, None, Tensor, None, None]:
        obs, noise = ctx.saved_tensors
        obs_grad = torch.empty_like(obs)
        tensors = {"obs": obs, "noise": noise, "action_grad": action_grad.contiguous(), "obs_grad": obs_grad}
        ctx.policy.run(ctx.policy.backward, {**ctx.fixed, **tensors})
        return None, None, obs_grad, None, None


def _linears(actor: Actor) -> list[nn.Linear]:
    return [layer for layer in actor.net if isinstance(layer, nn.Linear)]


def _layers(actor: Actor) -> Layers:
    linears = _linears(actor)
    return Layers((linears[0].in_features, *(layer.out_features for layer in linears)))


def _packing_index(actor: Actor) -> Tensor:
    """Return, for each packed number, its index in the concatenated weights; padding points at the zero after them."""
    counts = [p.numel() for p in actor.net.parameters()]
    ends = torch.tensor(counts).cumsum(0).tolist()
    indices = [torch.arange(end - count, end) for count, end in zip(counts, ends, strict=True)]
    packed: list[Tensor] = []
    for k, layer in enumerate(_linears(actor)):
        weight, bias, *norm = indices[4 * k : 4 * k + 4]
        weight = weight.view(layer.out_features, layer.in_features)
        scale, shift = norm or (bias[:0], bias[:0])
        for matrix, width in ((weight.T, round_up(layer.out_features)), (weight, round_up(layer.in_features))):
            packed.append(functional.pad(matrix, (0, width - matrix.shape[1]), value=ends[-1]).flatten())
        packed += [
            functional.pad(x, (0, round_up(layer.out_features) - len(x)), value=ends[-1]) for x in (bias, scale, shift)
        ]
    return torch.cat(packed)
