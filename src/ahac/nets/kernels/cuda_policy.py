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
from ahac.nets.actor import Actor, StateStdActor
from ahac.nets.gaussian import LOG_SQRT_2PI
from ahac.nets.kernels.cuda_layers import Layers, defines, kernel_source, round_up
from ahac.nets.normalizer import FrozenNormalizer

__all__ = ["CudaPolicy"]

BODY = (Path(__file__).parent / "cuda_policy.h").read_text(encoding="utf-8")
NAMES = (
    "obs", "obs_mean", "noise", "std", "packed", "action", "action_grad", "entropy", "entropy_grad", "obs_grad",
)  # fmt: skip
ARRAYS: dict[str, str] = dict.fromkeys(NAMES, "real")
HEAD = "const real* const packed = packed_p;\n"
Context = Any
"""Autograd's context, which carries values from the forward to the backward pass."""
KernelActor = Actor | StateStdActor


class CudaPolicy:
    """Samples actions of a float32 actor on CUDA."""

    def __init__(self, actor: KernelActor, entropy: bool = False) -> None:
        """Compile the kernels; with `entropy` they compute that of the samples as well."""
        device = next(actor.parameters()).device
        self.actor = actor
        self.entropy = entropy
        self.forward, self.backward = self.kernels(actor, str(device), entropy)
        for kernel in (self.forward, self.backward):
            kernel.prepare()
        self._index = _packing_index(actor).to(device)

    @staticmethod
    def supports(actor: KernelActor) -> bool:
        """Whether the kernels can run this actor: float32, on CUDA, with layers that fit."""
        weight = next(actor.parameters())
        return weight.is_cuda and weight.dtype == torch.float32 and _layers(actor).fits(weight.device)

    @staticmethod
    def kernels(actor: KernelActor, device: str, entropy: bool = False) -> list[Kernel]:
        """Return the kernels of the forward and the backward pass."""
        layers = _layers(actor)
        target = Target(device, float64=False, lane_bytes=16)
        bounds = (actor.low, actor.high) if isinstance(actor, StateStdActor) else (0.0, 0.0)
        numbers = {
            "STATE_STD": int(isinstance(actor, StateStdActor)),
            "ENTROPY": int(entropy),
            "LOW": bounds[0],
            "HIGH": bounds[1],
            "LOG_SQRT_2PI": LOG_SQRT_2PI,
        }
        head = defines(numbers) + HEAD
        return [
            Kernel(
                kernel_source(name, ARRAYS, layers, layers.shared, f"#define BACK {back}\n{head}", BODY, through=True),
                target,
                "policy",
            )
            for back, name in enumerate(("actions", "actions adjoint"))
        ]

    def sampler(self, normalizer: FrozenNormalizer) -> Callable[[Tensor, Tensor], Tensor]:
        """Return a function that samples actions from raw observations and noise, valid until the weights change.

        Gradients do not reach the weights.
        """
        assert not self.entropy, "these kernels also read a gradient of the entropy; use entropy_sampler"
        fixed = self._fixed(normalizer)
        return lambda obs, noise: _Sample.apply(self, fixed, obs, noise, self._anchor)

    def entropy_sampler(self, normalizer: FrozenNormalizer) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return a function like that of `sampler`, which also returns the entropies −log π(a | s)."""
        assert self.entropy, "these kernels do not compute entropies; create the policy with entropy=True"
        fixed = self._fixed(normalizer)
        return lambda obs, noise: _SampleWithEntropy.apply(self, fixed, obs, noise, self._anchor)

    @property
    def _anchor(self) -> Tensor:
        """A weight, as an input of the samples: it makes actions require a gradient even if observations do not."""
        return next(self.actor.parameters())

    @torch.no_grad()
    def _fixed(self, normalizer: FrozenNormalizer) -> dict[str, Tensor]:
        """Return what stays the same until the weights change."""
        first, *others = (p for p in self.actor.net.parameters())
        weights = [normalizer.scaled(first), *others, first.new_zeros(1)]
        packed = torch.cat([x.flatten() for x in weights])[self._index]
        obs_mean = normalizer.mean if normalizer.enabled else torch.zeros_like(normalizer.mean)
        fixed = {"obs_mean": obs_mean, "packed": packed}
        return fixed if isinstance(self.actor, StateStdActor) else {**fixed, "std": self.actor.log_std.exp()}

    def run(self, kernel: Kernel, tensors: dict[str, Tensor]) -> None:
        """Launch a kernel on the given tensors, with one row per world."""
        stream = torch.cuda.current_stream(tensors["obs"].device).cuda_stream
        worlds = len(tensors["obs"])
        addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
        kernel.launch(addresses, items=worlds, stream=stream, blocks=-(-worlds // WARP))


class _SampleWithEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context, policy: CudaPolicy, fixed: dict[str, Tensor], obs: Tensor, noise: Tensor, _: Tensor
    ) -> tuple[Tensor, Tensor]:
        obs, noise = obs.contiguous(), noise.contiguous()
        outputs = {"action": torch.empty_like(noise), "entropy": noise.new_empty(len(noise))}
        policy.run(policy.forward, {**fixed, "obs": obs, "noise": noise, **outputs})
        ctx.policy = policy
        ctx.fixed = fixed
        ctx.save_for_backward(obs, noise)
        return outputs["action"], outputs["entropy"]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Context, *gradients: Tensor) -> tuple[None, None, Tensor, None, None]:
        obs, noise = ctx.saved_tensors
        obs_grad = torch.empty_like(obs)
        names = ("action_grad", "entropy_grad")
        given = {name: gradient.contiguous() for name, gradient in zip(names, gradients, strict=False)}
        ctx.policy.run(ctx.policy.backward, {**ctx.fixed, **given, "obs": obs, "noise": noise, "obs_grad": obs_grad})
        return None, None, obs_grad, None, None


class _Sample(_SampleWithEntropy):
    @staticmethod
    def forward(
        ctx: Context, policy: CudaPolicy, fixed: dict[str, Tensor], obs: Tensor, noise: Tensor, anchor: Tensor
    ) -> Tensor:
        return _SampleWithEntropy.forward(ctx, policy, fixed, obs, noise, anchor)[0]


def _linears(actor: KernelActor) -> list[nn.Linear]:
    return [layer for layer in actor.net if isinstance(layer, nn.Linear)]


def _layers(actor: KernelActor) -> Layers:
    linears = _linears(actor)
    return Layers((linears[0].in_features, *(layer.out_features for layer in linears)), actor.function)


def _packing_index(actor: KernelActor) -> Tensor:
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
