"""Temperature of soft actor-critic methods: the weight of the entropy, learned to reach a target entropy."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ahac.nets.optim import gradient_step, make_adam, optimizer_tensors
from ahac.nets.state_dicts import flatten
from ahac.rl.sac_losses import temperature_loss

__all__ = ["Temperature"]


class Temperature:
    """A learned temperature α > 0, parameterized by its logarithm."""

    def __init__(
        self, initial: float, learning_rate: float, target_entropy: float, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.log_alpha = nn.Parameter(torch.tensor(math.log(initial), device=device, dtype=dtype))
        self.optimizer = make_adam([self.log_alpha], learning_rate)
        self.target_entropy = target_entropy

    @property
    def alpha(self) -> Tensor:
        """Current α, without a gradient."""
        return self.log_alpha.detach().exp()

    def update(self, log_prob: Tensor) -> None:
        """Take a gradient step, given [B] log π of the policy's actions."""
        gradient_step(self.optimizer, temperature_loss(self.log_alpha, log_prob, self.target_entropy))

    def state_dict(self) -> dict[str, Tensor]:
        """Return what was learned: the tensors themselves, not copies."""
        return flatten({"log": {"alpha": self.log_alpha}, "optimizer": optimizer_tensors(self.optimizer)})
