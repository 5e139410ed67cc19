"""Twin Q functions learned from replay, and their target networks."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor

from ahac.nets.optim import gradient_step, make_adam, optimizer_tensors
from ahac.nets.q_ensemble import QEnsemble
from ahac.nets.state_dicts import flatten
from ahac.rl.sac_losses import twin_loss

__all__ = ["TwinCritic"]


class TwinCritic:
    """Q functions, and target Q' functions that follow them: θ' ← θ' + τ (θ − θ')."""

    def __init__(self, q: QEnsemble, learning_rate: float, tau: float) -> None:
        self.q = q
        self.target = deepcopy(q).requires_grad_(False)
        self.tau = tau
        self.optimizer = make_adam(q.parameters(), learning_rate)

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
