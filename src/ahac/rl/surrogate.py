"""Policy losses whose gradient equals that of a rollout: to reuse it over several updates, and to mix two estimators.

A policy samples x = μ + σ ε and acts with a = tanh(x). A rollout and one backward pass give the analytic gradient
g = ∂L/∂x of every step, for a loss L to be minimized. With the noise that the current policy would have needed for the
same x held fixed, ε = (x − μ_θ) / σ_θ, the loss Σ g · (μ_θ + σ_θ ε) has the gradient of L with respect to θ. It can be
evaluated again after θ has changed, as long as the policy still makes x about as likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ahac.nets.gaussian import LOG_SQRT_2PI, entropy, kl, squashed_log_prob

__all__ = [
    "RolloutGradient",
    "SurrogateTerms",
    "analytic_share",
    "importance_weights",
    "likelihood_ratio_gradient",
    "surrogate_terms",
]

MIN_VARIANCE = 1e-12
"""Added to variances, so that weights are defined where both gradients vanish."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RolloutGradient:
    """What a rollout says about a policy; all tensors without gradients."""

    mean: Tensor
    """[T, N, actions] μ of the policy that was rolled out."""
    log_std: Tensor
    """[T, N, actions] its log σ."""
    x: Tensor
    """[T, N, actions] its samples before squashing."""
    gradient: Tensor
    """[T, N, actions] analytic gradient g of the loss with respect to x."""
    advantage: Tensor | None = None
    """[T, N] advantages times the weight of the step in the objective, for the likelihood-ratio gradient; None leaves
    it out. With `by_entropy`, the entropy of the step itself must not be part of it, or it would count twice."""
    share: Tensor | None = None
    """[T, 1, actions] share of the analytic gradient, from 0 to 1; None for 1."""
    by_entropy: Tensor | None = None
    """[T, N] gradient of the loss with respect to −log π(a | s), if that is part of the reward."""

    @cached_property
    def log_prob(self) -> Tensor:
        """[T, N, actions] log densities of the samples, before squashing."""
        return _log_probs(self.x, self.mean, self.log_std)


@dataclass(frozen=True, eq=False, kw_only=True)
class SurrogateTerms:
    """Terms of the loss of a policy update."""

    loss: Tensor
    """Has the gradient of the rollout's loss, weighted by importance."""
    kl: Tensor
    """Mean KL(old ‖ new)."""
    entropy: Tensor
    """Mean entropy of the policy before squashing."""
    share_clipped: Tensor
    """Fraction of samples left out because their importance weight is outside the clip range."""


def importance_weights(log_ratio: Tensor, clip_low: float, clip_high: float) -> Tensor:
    """Return ρ = π_θ(x) / π_old(x) where 1 − clip_low <= ρ <= 1 + clip_high, and 0 elsewhere; without gradients."""
    ratio = log_ratio.detach().exp()
    return torch.where((ratio >= 1.0 - clip_low) & (ratio <= 1.0 + clip_high), ratio, 0.0)


def likelihood_ratio_gradient(advantage: Tensor, mean: Tensor, log_std: Tensor, x: Tensor) -> Tensor:
    """Return the [T, N, actions] gradient of the loss with respect to μ by the likelihood ratio: −A (x − μ) / σ²."""
    return -advantage[..., None] * (x - mean) * torch.exp(-2.0 * log_std)


def analytic_share(analytic: Tensor, likelihood_ratio: Tensor) -> Tensor:
    """Return the [T, 1, actions] weight of the analytic gradient when both are weighted by their inverse variance.

    Args:
        analytic: [T, N, actions] gradients of each world.
        likelihood_ratio: The same by the likelihood ratio.
    """
    first, zeroth = (x.var(dim=1, keepdim=True) + MIN_VARIANCE for x in (analytic, likelihood_ratio))
    return zeroth / (first + zeroth)


def surrogate_terms(
    mean: Tensor, log_std: Tensor, rollout: RolloutGradient, clip_low: float, clip_high: float
) -> SurrogateTerms:
    """Return the terms of the loss for a policy with [T, N, actions] μ and log σ, which carry gradients."""
    log_prob = _log_probs(rollout.x, mean, log_std)
    weight = importance_weights((log_prob - rollout.log_prob).sum(dim=-1), clip_low, clip_high)
    noise = ((rollout.x - mean) * torch.exp(-log_std)).detach()
    x = torch.addcmul(mean, log_std.exp(), noise)
    by_action = rollout.gradient * x
    if rollout.advantage is not None and rollout.share is not None:
        by_action = torch.lerp(-rollout.advantage[..., None] * log_prob, by_action, rollout.share)
    loss = (weight[..., None] * by_action).sum()
    if rollout.by_entropy is not None:
        loss = loss - (weight * rollout.by_entropy * squashed_log_prob(x, noise, log_std)).sum()
    return SurrogateTerms(
        loss=loss,
        kl=kl(rollout.mean, rollout.log_std, mean, log_std).mean(),
        entropy=entropy(log_std).mean(),
        share_clipped=(weight == 0.0).to(weight.dtype).mean(),
    )


def _log_probs(x: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """[..., actions] log density of each entry."""
    return -0.5 * ((x - mean) * torch.exp(-log_std)).square() - log_std - LOG_SQRT_2PI
