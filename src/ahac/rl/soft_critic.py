"""Twin Q functions that learn from replay, and the slow copies that their targets come from."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor

from ahac.nets.adam import moments, optimizer, step_down
from ahac.nets.states import named
from ahac.nets.twin_q import TwinQ
from ahac.rl.soft import twin_loss

__all__ = ["SoftCritic"]


class SoftCritic:
    """Q, and Q' that follows it: θ' ← θ' + τ (θ − θ')."""

    def __init__(self, q: TwinQ, rate: float, tau: float) -> None:
        self.q, self.target, self.tau = q, deepcopy(q).requires_grad_(False), tau
        self.optimizer = optimizer(q.parameters(), rate)

    def update(self, obs: Tensor, action: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Learn [B] targets; the loss, and the mean of what Q said."""
        said = self.q(obs, action)
        loss = twin_loss(said, target)
        step_down(self.optimizer, loss)
        return loss.detach(), said.detach().mean()

    @torch.no_grad()
    def follow(self) -> None:
        """Let the slow copies come nearer."""
        torch._foreach_lerp_(list(self.target.parameters()), list(self.q.parameters()), self.tau)

    def state_dict(self) -> dict[str, Tensor]:
        """What it has learned: the tensors themselves."""
        return named({
            "q": self.q.state_dict(), "target": self.target.state_dict(), "optimizer": moments(self.optimizer)
        })  # fmt: skip
