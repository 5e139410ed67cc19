"""Stochastic value gradients, SVG(H): soft actor-critic whose policy learns through a learned model.

The policy is rolled out for H steps in a learned deterministic recurrent model; rewards, entropies and a final Q value
are differentiated through it. Q learns from replay alone, as in SAC. If critics have their own observation group, the
model predicts both groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.algos.off_policy import Metrics, mean_metrics
from ahac.algos.parts.model_fit import ModelFit
from ahac.algos.sac import SAC, SACConfig
from ahac.core.checks import check_finite, check_int, check_widths
from ahac.core.env import EnvSpec
from ahac.core.errors import InputError
from ahac.nets.latent_dynamics import LatentDynamics
from ahac.nets.mlp import mlp
from ahac.rl.sac_losses import value_expansion

__all__ = ["SVG", "SVGConfig"]

MODEL_MAX_GRAD_NORM = 1.0
"""Clip the gradient of the dynamics to this norm, because it is backpropagated through time."""


@dataclass(frozen=True, kw_only=True)
class SVGConfig(SACConfig):
    """Stochastic value gradients through a learned model."""

    hidden: tuple[int, ...] = (128, 128)
    """Hidden layer widths of the policy."""
    critic_hidden: tuple[int, ...] = (128, 128)
    """Hidden layer widths of each Q function."""
    model_hidden: tuple[int, ...] = (128, 128)
    """Hidden layer widths of the encoder, the decoder, and the reward and termination models."""
    latent: int = 128
    """Width of each recurrent cell's state."""
    layers: int = 2
    """Number of recurrent cells."""
    horizon: int = 3
    """Model steps H before the Q value; 0 is SAC."""
    learning_rate: float = 1e-4
    """Learning rate of the policy and the Q functions."""
    max_grad_norm: float | None = 1.0
    """Clip the policy's gradient to this norm; None disables clipping."""
    model_learning_rate: float = 1e-4
    """Learning rate of the dynamics model."""
    head_learning_rate: float = 1e-3
    """Learning rate of the reward and termination models."""
    init_alpha: float = 0.1
    """Initial temperature α."""
    batch_size: int = 1024
    """Transitions per update."""
    sequences: int = 512
    """Sequences per model update."""
    sequence_steps: int = 4
    """Steps per sequence."""
    updates: int = 5
    """Updates of the Q functions and the policy after each step of all worlds."""
    model_updates: int = 4
    """Model updates before them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("latent", "layers", "sequences", "sequence_steps"):
            check_int(name, getattr(self, name), 1)
        for name in ("horizon", "model_updates"):
            check_int(name, getattr(self, name), 0)
        check_widths("model_hidden", self.model_hidden)
        for name in ("model_learning_rate", "head_learning_rate"):
            check_finite(name, getattr(self, name), 0.0)
        if self.sequence_steps > self.steps_per_env:
            raise InputError(
                f"sequence_steps must not exceed steps_per_env, got {self.sequence_steps} and {self.steps_per_env}"
            )

    @property
    def sequence(self) -> tuple[str, int]:
        """See `OffPolicyConfig`."""
        return "sequences", self.sequence_steps


class SVG(SAC):
    """SAC whose policy maximizes soft values over H steps of a learned model."""

    config: SVGConfig

    def __init__(self, config: SVGConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, spec, seed)
        c = config
        rng = self.init_rng
        self._obs_size = spec.obs_size
        self._critic_start = spec.obs_size if spec.asymmetric else 0
        # The model predicts all that policy and critics see.
        state_size = self._critic_start + spec.critic_obs_size
        dynamics = LatentDynamics(
            state_size,
            spec.action_size,
            hidden=c.model_hidden,
            latent=c.latent,
            layers=c.layers,
            function=c.activation,
            rng=rng,
        )
        widths = [state_size + spec.action_size, *c.model_hidden, 1]
        reward, end = (mlp(widths, c.activation, rng=rng).to(spec.device, spec.dtype) for _ in range(2))
        self.model = ModelFit(
            dynamics.to(spec.device, spec.dtype), reward, end, c.model_learning_rate, c.head_learning_rate
        )
        self._track({**self._sections(), "model": self.model.state_dict()})

    def value(self, state: Tensor, noise: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return [B] soft values over H steps in the model, and [B] log π of the first actions.

        Args:
            state: [B, state] what the model predicts, see `_state`.
            noise: [H + 1, B, actions] noise of the actions.
            alpha: The temperature.
        """
        states, actions, log_prob = self.model.dynamics.imagine(state, self._policy, noise)
        reward, continuation = self.model.reward_and_continuation(states[:-1], actions[:-1])
        last_q = self.critic.q.min_q(states[-1][:, self._critic_start :], actions[-1])
        return value_expansion(reward, log_prob, continuation, last_q, alpha, self.config.gamma), log_prob[0]

    def _policy(self, state: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return [B, actions] and their log densities; the policy sees the first part of the model's state."""
        return self.actor(state[:, : self._obs_size], noise)

    def _state(self, obs: Tensor, critic_obs: Tensor) -> Tensor:
        """Return [..., state]: normalized observations of the policy, then those of the critics if they differ."""
        return obs if critic_obs is obs else torch.cat([obs, critic_obs], dim=-1)

    def _policy_value(self, obs: Tensor, critic_obs: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        return self.value(self._state(obs, critic_obs), self._noise(self.config.horizon + 1, len(obs)), alpha)

    def _update_networks(self) -> Metrics:
        model = mean_metrics([self._update_model() for _ in range(self.config.model_updates)])
        return super()._update_networks() | model

    def _update_model(self) -> Metrics:
        c = self.config
        batch = self.collector.sample_sequences(c.sequences, c.sequence_steps)
        batch["obs"] = self._state(*self._normalized(batch["obs"], batch.get("critic_obs")))
        batch["next_obs"] = self._state(*self._normalized(batch["next_obs"], batch.get("next_critic_obs")))
        batch["reward"] = c.reward_scale * batch["reward"]
        first, last, reward = self.model.update(batch, MODEL_MAX_GRAD_NORM)
        return {"model_error_first": first, "model_error_last": last, "reward_error": reward}
