"""Several policy updates with the gradient of one rollout, and mixing it with the likelihood-ratio gradient.

Reuse follows RPO (arXiv 2508.06214), mixing follows IVW-H (inverse-variance weighting for each step of the horizon,
arXiv 2604.18161). Any first-order algorithm can use either or both.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ahac.algos.config import UpdateConfig
from ahac.core.distributed import ProcessGroup
from ahac.core.errors import InputError
from ahac.nets.actor import SquashedGaussian
from ahac.nets.optim import step_only_if
from ahac.rl.surrogate import (
    RolloutGradient,
    SurrogateTerms,
    analytic_share,
    likelihood_ratio_gradient,
    surrogate_terms,
)

__all__ = ["PolicyEpochs"]


class PolicyEpochs:
    """Updates a policy from the gradients of a rollout with respect to its actions."""

    def __init__(
        self,
        actor: SquashedGaussian,
        optimizer: torch.optim.Adam,
        config: UpdateConfig,
        max_grad_norm: float,
        ranks: ProcessGroup,
    ) -> None:
        self.actor = actor
        self.optimizer = optimizer
        self.config = config
        self.max_grad_norm = max_grad_norm
        self.ranks = ranks

    @torch.no_grad()
    def describe(
        self,
        obs: Tensor,
        noise: Tensor,
        by_action: Tensor,
        advantage: Tensor | None = None,
        by_entropy: Tensor | None = None,
    ) -> RolloutGradient:
        """Return what the updates need of a rollout, before the policy changes.

        Args:
            obs: [T, N, obs] normalized observations.
            noise: [T, N, actions] noise of the actions.
            by_action: [T, N, actions] gradient of the loss with respect to the actions.
            advantage: [T, N] advantages times the weight of each step in the objective, if the config asks for mixing.
            by_entropy: [T, N] gradient of the loss with respect to the entropies, if they are part of the reward.
        """
        mean, log_std = self.actor.distribution(obs)
        x = torch.addcmul(mean, log_std.exp(), noise)
        gradient = by_action * (1.0 - torch.tanh(x).square())
        share = None
        if advantage is not None:
            if (worlds := advantage.shape[1] * self.ranks.size) < 2:
                raise InputError(
                    f'update.gradient "mixed" needs the variance over worlds, got {worlds} world; use num_envs of 2 or '
                    'more, or "analytic"'
                )
            zeroth = likelihood_ratio_gradient(advantage, mean, log_std, x)
            # Per world, not divided by the number of samples, which would make variances tiny.
            both = (self.ranks.gather(g * advantage.numel(), dim=1) for g in (gradient, zeroth))
            share = analytic_share(*both)
        return RolloutGradient(
            mean=mean,
            log_std=log_std,
            x=x,
            gradient=gradient,
            advantage=advantage,
            share=share,
            by_entropy=by_entropy,
        )

    def set_gradients(self, rollout: RolloutGradient, obs: Tensor) -> SurrogateTerms:
        """Set the gradients of the policy's weights for the next update, and return the terms of its loss."""
        c = self.config
        terms = surrogate_terms(*self.actor.distribution(obs), rollout, c.clip_low, c.clip_high)
        loss = terms.loss + c.kl_coef * terms.kl - c.entropy_coef * terms.entropy
        weights = [weight for weight in self.actor.parameters() if weight.requires_grad]
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights, materialize_grads=True), strict=True):
            weight.grad = gradient
        return terms

    def repeat(self, rollout: RolloutGradient, obs: Tensor, valid: Tensor) -> dict[str, Tensor]:
        """Take the updates after the first, unless the rollout was not valid, and return what to log."""
        for _ in range(self.config.epochs - 1):
            self.set_gradients(rollout, obs)
            self.ranks.average_gradients(self.actor.parameters())
            norm = nn.utils.clip_grad_norm_(self.actor.parameters(), self.max_grad_norm)
            with step_only_if(valid & torch.isfinite(norm), self.optimizer):
                self.optimizer.step()  # pyright: ignore[reportUnknownMemberType]
        with torch.no_grad():
            c = self.config
            terms = surrogate_terms(*self.actor.distribution(obs), rollout, c.clip_low, c.clip_high)
        share = torch.ones_like(terms.kl) if rollout.share is None else rollout.share.mean()
        return {"policy_kl": terms.kl, "analytic_share": share}
