"""The temperature of soft actor-critic methods: how much entropy is worth, learnt so that there is enough of it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ahac.nets.adam import moments, optimizer, step_down
from ahac.nets.states import named
from ahac.rl.soft import temperature_loss

__all__ = ["Temperature"]


class Temperature:
    """α > 0, by its logarithm."""

    def __init__(
        self, first: float, rate: float, target_entropy: float, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.log_alpha = nn.Parameter(torch.tensor(math.log(first), device=device, dtype=dtype))
        self.optimizer, self.target_entropy = optimizer([self.log_alpha], rate), target_entropy

    @property
    def alpha(self) -> Tensor:
        """As it is now, without a gradient."""
        return self.log_alpha.detach().exp()

    def update(self, log_prob: Tensor) -> None:
        """Learn from the policy's log densities [B]."""
        step_down(self.optimizer, temperature_loss(self.log_alpha, log_prob, self.target_entropy))

    def state_dict(self) -> dict[str, Tensor]:
        """What it has learned: the tensors themselves."""
        return named({"log": {"alpha": self.log_alpha}, "optimizer": moments(self.optimizer)})
