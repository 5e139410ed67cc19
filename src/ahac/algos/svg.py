"""Stochastic value gradients, SVG(H): soft actor-critic whose policy climbs values through a learnt model.

The policy is played for H steps in a learnt deterministic recurrent model; rewards, entropies and a Q function at the
end are differentiated through it. Q learns from replay alone, as in soft actor-critic. All worlds run side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from ahac.algos.parts.model_fit import ModelFit
from ahac.algos.sac import SAC
from ahac.algos.soft import SoftConfig, Told, averaged
from ahac.core.checks import check_finite, check_int
from ahac.core.env import EnvSpec
from ahac.core.errors import InputError
from ahac.nets.latent_dynamics import LatentDynamics
from ahac.nets.mlp import mlp
from ahac.rl.sac_losses import value_expansion

__all__ = ["SVG", "SVGConfig"]

MODEL_NORM = 1.0
"""To which the gradient of the dynamics is clipped: it goes through time."""


@dataclass(frozen=True, kw_only=True)
class SVGConfig(SoftConfig):
    """Stochastic value gradients through a learnt model."""

    hidden: tuple[int, ...] = (128, 128)
    """Widths of the policy's hidden layers."""
    critic_hidden: tuple[int, ...] = (128, 128)
    """Widths of those of each Q function."""
    model_hidden: tuple[int, ...] = (128, 128)
    """Widths of those of encoder, decoder, reward and end."""
    latent: int = 128
    """What each recurrent cell remembers."""
    layers: int = 2
    """Recurrent cells."""
    horizon: int = 3
    """H, steps in the model before Q; 0 is soft actor-critic."""
    learning_rate: float = 1e-4
    """Learning rate of policy and Q functions."""
    max_grad_norm: float | None = 1.0
    """Norm to which the policy's gradient is clipped."""
    model_learning_rate: float = 1e-4
    """Learning rate of the dynamics."""
    head_learning_rate: float = 1e-3
    """Learning rate of the models of reward and end."""
    init_alpha: float = 0.1
    """The first α."""
    batch_size: int = 1024
    """Transitions per update."""
    sequences: int = 512
    """Sequences per update of the model."""
    sequence_steps: int = 4
    """Steps of each of them."""
    updates: int = 5
    """Of Q functions and policy, after every step of all worlds."""
    model_updates: int = 4
    """Of the model, before them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("latent", "layers", "sequences", "sequence_steps"):
            check_int(name, getattr(self, name), 1)
        for name in ("horizon", "model_updates"):
            check_int(name, getattr(self, name), 0)
        for width in self.model_hidden:
            check_int("the width of a hidden layer", width, 1)
        for name in ("model_learning_rate", "head_learning_rate"):
            check_finite(name, getattr(self, name), 0.0)
        if self.sequence_steps > self.steps_per_env:
            raise InputError(
                f"sequence_steps must not exceed steps_per_env, got {self.sequence_steps} and {self.steps_per_env}"
            )


class SVG(SAC):
    """The policy climbs soft values over H steps of a learnt model."""

    config: SVGConfig

    def __init__(self, config: SVGConfig, spec: EnvSpec, seed: int, graphs: bool = True) -> None:
        c = config
        obs = spec.obs_size
        actions = spec.action_size
        super().__init__(config, spec, seed, graphs)
        if self.replay.length < c.sequence_steps:
            raise InputError(
                f"buffer_size must be at least {c.sequence_steps * spec.num_envs} for sequences of {c.sequence_steps} "
                f"steps in {spec.num_envs} worlds, got {c.buffer_size}"
            )
        rng, place = self.soft.first, {"device": spec.device, "dtype": spec.dtype}
        dynamics = LatentDynamics(
            obs, actions, hidden=c.model_hidden, latent=c.latent, layers=c.layers, function=c.activation, rng=rng
        )
        reward, end = (mlp([obs + actions, *c.model_hidden, 1], c.activation, rng=rng).to(**place) for _ in range(2))
        self.model = ModelFit(dynamics.to(**place), reward, end, c.model_learning_rate, c.head_learning_rate)

    def value(self, obs: Tensor, noise: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """[B] soft values of normalised observations by H steps in the model, and log densities of the first actions.

        Args:
            obs: [B, obs].
            noise: [H + 1, B, actions] of the actions on the way.
            alpha: The temperature.
        """
        seen, played, density = self.model.dynamics.imagine(obs, self.soft.actor, noise)
        reward, on = self.model.reward_and_continuation(seen[:-1], played[:-1])
        last = self.soft.critic.q.min_q(seen[-1], played[-1])
        return value_expansion(reward, density, on, last, alpha, self.config.gamma), density[0]

    def _learn(self) -> Told:
        model = [self._update_model() for _ in range(self.config.model_updates)]
        return averaged([self.soft.update(self._value) for _ in range(self.config.updates)]) | averaged(model)

    def _value(self, obs: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        return self.value(obs, self.soft.noise(self.config.horizon + 1, len(obs)), alpha)

    def _update_model(self) -> Told:
        c, view = self.config, self.soft.view
        batch = self.replay.sample_sequences(c.sequences, c.sequence_steps, self.soft.generator)
        batch |= {name: view(batch[name]) for name in ("obs", "next_obs")}
        batch["reward"] = c.reward_scale * batch["reward"]
        first, last, reward = self.model.update(batch, MODEL_NORM)
        return {"model_error_first": first, "model_error_last": last, "reward_error": reward}

    def _parts(self) -> dict[str, Mapping[str, Tensor]]:
        return super()._parts() | {"model": self.model.state_dict()}
