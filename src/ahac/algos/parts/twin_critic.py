"""Twin Q functions learned from replay, values or distributions, and their target networks."""

from __future__ import annotations

from copy import deepcopy
from typing import Generic, TypeVar

import torch
from torch import Tensor

from ahac.nets.optim import gradient_step, optimizer_tensors
from ahac.nets.q_ensemble import CategoricalQEnsemble, NetworkEnsemble
from ahac.nets.state_dicts import flatten
from ahac.rl.categorical import Support, categorical_loss, expected_value
from ahac.rl.sac_losses import twin_loss

__all__ = ["CategoricalTwinCritic", "TwinCritic"]

Q = TypeVar("Q", bound=NetworkEnsemble)


class TwinCritic(Generic[Q]):
    """Q functions, and target Q' functions that follow them: θ' ← θ' + τ (θ − θ')."""

    def __init__(self, q: Q, optimizer: torch.optim.Adam, tau: float) -> None:
        self.q = q
        self.target = deepcopy(q).requires_grad_(False)
        self.tau = tau
        self.optimizer = optimizer

    def update(self, obs: Tensor, action: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Take a gradient step toward [B] targets; return the loss and the mean of Q."""
        q = self.q(obs, action)
        loss = twin_loss(q, target)
        gradient_step(self.optimizer, loss)
        return loss.detach(), q.detach().mean()

    @torch.no_grad()
    def polyak_update(self) -> None:
        """Move the target Q functions toward the Q functions."""
        torch._foreach_lerp_(  # pyright: ignore[reportPrivateUsage,reportPrivateImportUsage]
            list(self.target.parameters()), list(self.q.parameters()), self.tau
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Return what was learned: the tensors themselves, not copies."""
        return flatten(
            {
                "q": self.q.state_dict(),
                "target": self.target.state_dict(),
                "optimizer": optimizer_tensors(self.optimizer),
            }
        )


class CategoricalTwinCritic(TwinCritic[CategoricalQEnsemble]):
    """Distributions of returns on the atoms of a support, and target distributions that follow them."""

    def __init__(self, q: CategoricalQEnsemble, optimizer: torch.optim.Adam, tau: float, support: Support) -> None:
        super().__init__(q, optimizer, tau)
        self.support = support

    def update(self, obs: Tensor, action: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Take a gradient step toward [B, K] target distributions; return the loss and the mean of Q."""
        logits = self.q(obs, action)
        loss = categorical_loss(logits, target)
        gradient_step(self.optimizer, loss)
        return loss.detach(), expected_value(logits.detach().softmax(dim=-1), self.support).mean()

    def values(self, obs: Tensor, action: Tensor) -> Tensor:
        """Return [M, B] expected returns by each member."""
        return expected_value(self.q.probabilities(obs, action), self.support)
