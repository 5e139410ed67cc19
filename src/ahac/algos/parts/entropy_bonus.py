"""The maximum-entropy objective of SAPO: a bonus for the policy's entropy, with a learned temperature.

    r + α Ĥ,        Ĥ = ½ (ℋ + |ℋ̄|) / |ℋ̄|,        ℋ = −log π(a | s)

Ĥ is ½ where the entropy is zero, and 0 at the target entropy ℋ̄, which is negative. The temperature α falls while the
entropy is above the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ahac.algos.config import EntropyConfig
from ahac.nets.optim import make_adam, optimizer_tensors, step_only_if
from ahac.nets.state_dicts import flatten

__all__ = ["EntropyBonus", "collecting"]

Sampler = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def collecting(sample: Sampler, entropies: list[Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that samples actions, and appends their entropies to a list."""

    def act(obs: Tensor, noise: Tensor) -> Tensor:
        action, entropy = sample(obs, noise)
        entropies.append(entropy)
        return action

    return act


class EntropyBonus:
    """Rewards entropy; its temperature α > 0 is parameterized by its logarithm."""

    def __init__(self, config: EntropyConfig, actions: int, device: torch.device, dtype: torch.dtype) -> None:
        initial = math.log(config.init_temperature)
        self.log_alpha = nn.Parameter(torch.tensor(initial, device=device, dtype=dtype))
        self.optimizer = make_adam([self.log_alpha], config.learning_rate)
        self.target = -0.5 * actions if config.target is None else config.target

    @property
    def alpha(self) -> Tensor:
        """Current temperature, without a gradient."""
        return self.log_alpha.detach().exp()

    def __call__(self, entropy: Tensor) -> Tensor:
        """Return α Ĥ for [T, N] entropies, with their gradients."""
        scale = abs(self.target)
        return self.alpha * (0.5 / scale) * (entropy + scale)

    def update(self, entropy: Tensor, valid: Tensor) -> None:
        """Take a gradient step on α |ℋ̄| (ℋ − ℋ̄) for the mean entropy, unless the iteration was not valid."""
        loss_slope = self.alpha * abs(self.target) * (entropy.detach() - self.target)
        self.log_alpha.grad = loss_slope.clamp(-1.0, 1.0)
        with step_only_if(valid & torch.isfinite(loss_slope), self.optimizer):
            self.optimizer.step()  # pyright: ignore[reportUnknownMemberType]

    def state_dict(self) -> dict[str, Tensor]:
        """Return what was learned: the tensors themselves, not copies."""
        return flatten({"log": {"alpha": self.log_alpha}, "optimizer": optimizer_tensors(self.optimizer)})
