"""Several policy updates with the gradient of one rollout, and mixing it with the likelihood-ratio gradient.

Reuse follows RPO (arXiv 2508.06214), mixing follows IVW-H (inverse-variance weighting for each step of the horizon,
arXiv 2604.18161). Any first-order algorithm can use either or both.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ahac.algos.config import UpdateConfig
from ahac.core.distributed import ProcessGroup
from ahac.nets.actor import SquashedGaussian
from ahac.rl.surrogate import (
    RolloutGradient,
    SurrogateTerms,
    analytic_share,
    likelihood_ratio_gradient,
    surrogate_terms,
)

__all__ = ["PolicyEpochs"]


class PolicyEpochs:
    """Computes the gradients of a policy's weights from those of a rollout, for one update after the other."""

    def __init__(
        self,
        actor: SquashedGaussian,
        config: UpdateConfig,
        ranks: ProcessGroup,
    ) -> None:
        self.actor = actor
        self.config = config
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
            self.config.check_worlds(advantage.shape[1] * self.ranks.size)
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

    def set_gradients(self, rollout: RolloutGradient, obs: Tensor) -> None:
        """Set the gradients of the policy's weights for the next update."""
        c = self.config
        terms = self._terms(rollout, obs)
        loss = terms.loss + c.kl_coef * terms.kl - c.entropy_coef * terms.entropy
        weights = [weight for weight in self.actor.parameters() if weight.requires_grad]
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights, materialize_grads=True), strict=True):
            weight.grad = gradient

    @torch.no_grad()
    def metrics(self, rollout: RolloutGradient, obs: Tensor) -> dict[str, Tensor]:
        """Return what to log after the last update."""
        kl = self._terms(rollout, obs).kl
        share = torch.ones_like(kl) if rollout.share is None else rollout.share.mean()
        return {"policy_kl": kl, "analytic_share": share}

    def _terms(self, rollout: RolloutGradient, obs: Tensor) -> SurrogateTerms:
        return surrogate_terms(*self.actor.distribution(obs), rollout, self.config.clip_low, self.config.clip_high)
