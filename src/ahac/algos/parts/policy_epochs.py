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
from ahac.nets.gaussian import kl as gaussian_kl
from ahac.rl.surrogate import (
    RolloutGradient,
    analytic_share,
    likelihood_ratio_gradient,
    surrogate_terms,
)

__all__ = ["PolicyEpochs"]

Distribution = tuple[Tensor, Tensor]
"""[T, N, actions] μ and log σ."""


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
        policy: Distribution,
        noise: Tensor,
        by_action: Tensor,
        advantage: Tensor | None = None,
        by_entropy: Tensor | None = None,
    ) -> RolloutGradient:
        """Return what the updates need of a rollout, before the policy changes.

        Args:
            policy: The policy's μ and log σ for the observations of the rollout.
            noise: [T, N, actions] noise of the actions.
            by_action: [T, N, actions] gradient of the loss with respect to the actions.
            advantage: [T, N] advantages times the weight of each step in the objective, if the config asks for mixing.
            by_entropy: [T, N] gradient of the loss with respect to the entropies, if they are part of the reward.
        """
        mean, log_std = (x.detach() for x in policy)
        log_std = log_std.clone()  # of some policies these are weights, which an update changes in place
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

    def set_gradients(self, rollout: RolloutGradient, policy: Distribution) -> Tensor:
        """Set the gradients of the policy's weights for the next update; return the fraction of samples left out.

        Args:
            rollout: What `describe` returned.
            policy: The μ and log σ of the policy as it is now, with gradients.
        """
        c = self.config
        terms = surrogate_terms(*policy, rollout, c.clip_low, c.clip_high)
        loss = terms.loss + c.kl_coef * terms.kl - c.entropy_coef * terms.entropy
        weights = [weight for weight in self.actor.parameters() if weight.requires_grad]
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights, materialize_grads=True), strict=True):
            weight.grad = gradient
        return terms.share_clipped

    @torch.no_grad()
    def possible_causes(self, obs: Tensor) -> str:
        """Return the settings that can make the policy's gradient non-finite, and what to change."""
        c = self.config
        std = self.actor.distribution(obs)[1].exp()
        return (
            f"update.epochs is {c.epochs}, update.gradient {c.gradient}, update.kl_coef {c.kl_coef:g}, "
            f"update.entropy_coef {c.entropy_coef:g}, and the policy's standard deviation {std.min():.3g} to "
            f"{std.max():.3g}: lower coefficients that are huge, choose actor.init_log_std closer to 0 if the standard "
            "deviation is tiny or huge, or set update.epochs 1 and update.gradient analytic"
        )

    @torch.no_grad()
    def metrics(self, rollout: RolloutGradient, obs: Tensor, clipped: list[Tensor]) -> dict[str, Tensor]:
        """Return what to log after the last update, given the fractions of samples that later ones left out."""
        kl = gaussian_kl(rollout.mean, rollout.log_std, *self.actor.distribution(obs)).mean()
        share = torch.ones_like(kl) if rollout.share is None else rollout.share.mean()
        share_clipped = torch.stack(clipped).mean() if clipped else torch.zeros_like(kl)
        return {"policy_kl": kl, "share_clipped": share_clipped, "analytic_share": share}
