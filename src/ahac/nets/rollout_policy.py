"""The policy that samples actions during a rollout: one CUDA kernel per step where supported, the actor otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from ahac.nets.actor import Actor, SquashedGaussian
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


def make_rollout_policy(actor: SquashedGaussian) -> RolloutPolicy:
    """Return the CUDA kernels where they support the actor, and the actor itself otherwise."""
    return CudaPolicy(actor) if isinstance(actor, Actor) and CudaPolicy.supports(actor) else actor
