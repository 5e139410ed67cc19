"""The policy that samples actions during a rollout: one CUDA kernel per step where supported, the actor otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from ahac.nets.actor import Actor, SquashedGaussian, StateStdActor
from ahac.nets.kernels.cuda_policy import CudaPolicy
from ahac.nets.normalizer import FrozenNormalizer

__all__ = ["RolloutPolicy", "make_rollout_policy"]


class RolloutPolicy(Protocol):
    """Samples actions from raw observations."""

    def sampler(self, normalizer: FrozenNormalizer) -> Callable[[Tensor, Tensor], Tensor]:
        """Return a function of raw observations and standard normal noise, valid until the weights change.

        Gradients flow to the observations; whether they also flow to the weights depends on the implementation.
        """
        ...

    def entropy_sampler(self, normalizer: FrozenNormalizer) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return a function like that of `sampler`, which also returns the entropies −log π(a | s)."""
        ...


def make_rollout_policy(actor: SquashedGaussian, entropy: bool = False) -> RolloutPolicy:
    """Return the CUDA kernels where they support the actor, and the actor itself otherwise.

    With `entropy`, entropies are sampled as well.
    """
    if isinstance(actor, Actor | StateStdActor) and CudaPolicy.supports(actor):
        return CudaPolicy(actor, entropy)
    return actor
