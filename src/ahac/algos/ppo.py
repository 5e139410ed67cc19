"""Proximal policy optimisation: clipped surrogate, generalised advantages, a learning rate that follows the divergence.

One iteration: T steps of all worlds without gradients, then some passes over them in minibatches. On CUDA it is
recorded and replayed, and nothing waits for the device before the numbers of the whole iteration are read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.algos.algorithm import IterationResult
from ahac.algos.finite_checks import KEPT, check_learned, check_policy, finite_action, skipped
from ahac.core.checks import check_finite, check_int, check_positive, check_probability
from ahac.core.env import Env, EnvSpec
from ahac.core.errors import InputError
from ahac.core.rng import restore_generator
from ahac.nets.gaussian import entropy, kl, log_prob
from ahac.nets.mlp import Activation
from ahac.nets.normalizer import FrozenNormalizer, Normalizer
from ahac.nets.optim import gradient_step, make_adam, optimizer_tensors
from ahac.nets.ppo_actor_critic import PPOActorCritic
from ahac.nets.state_dicts import LearnedState, check_state, first_non_finite
from ahac.rl.gae import gae
from ahac.rl.on_policy import Batch, collect, diagnose_batch, nonfinite_worlds
from ahac.rl.ppo_losses import action_bound_loss, adaptive_learning_rate, clipped_surrogate, clipped_value_loss
from ahac.rl.stepping import RolloutInterrupted
from ahac.runtime.cuda_graphs import ExecutorSelector
from ahac.runtime.timer import PhaseTimer

__all__ = ["PPO", "PPOConfig"]

RATES = (1e-6, 1e-2)
"""Between which an adaptive learning rate stays."""
EPS = 1e-5
"""Of Adam."""
NONFINITE_UPDATE = f"a loss or gradient is not finite; {KEPT}"


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """Proximal policy optimisation."""

    hidden: tuple[int, ...] = (128, 64, 32)
    """Widths of the policy's hidden layers."""
    critic_hidden: tuple[int, ...] | None = (64, 64)
    """Widths of the critic's; none: it shares the policy's."""
    activation: Activation = "elu"
    """Between layers."""
    init_log_std: float = 0.0
    """Logarithm of the first standard deviation."""
    steps_per_env: int = 32
    """Steps of every world per iteration."""
    epochs: int = 5
    """Over an iteration's experience."""
    minibatches: int = 4
    """Into which a pass is divided."""
    learning_rate: float = 5e-4
    """Learning rate; the first one, where it follows the divergence."""
    target_kl: float | None = 0.008
    """KL divergence per iteration that the learning rate aims at; none: the rate stays as it is."""
    clip_range: float = 0.2
    """ε of the surrogate."""
    clip_range_vf: float | None = 0.2
    """How far a value may move per iteration, of normalised ones if they are; none: any way."""
    value_coef: float = 4.0
    """Weight of the critic's loss."""
    entropy_coef: float = 0.0
    """Weight of the policy's entropy."""
    action_bound_coef: float = 1e-4
    """Weight of the loss on means outside of the actions' range."""
    max_grad_norm: float = 1.0
    """Norm to which the gradient is clipped."""
    normalize_obs: bool = True
    """Whether observations are normalised by what has been seen so far."""
    normalize_value: bool = True
    """Whether returns are, for the critic."""
    reward_scale: float = 0.01
    """By which rewards are multiplied."""
    gamma: float = 0.99
    """Discount."""
    gae_lambda: float = 0.95
    """λ of the advantages."""

    def __post_init__(self) -> None:
        for name in ("steps_per_env", "epochs", "minibatches"):
            check_int(name, getattr(self, name), 1)
        for width in (*self.hidden, *(self.critic_hidden or ())):
            check_int("the width of a hidden layer", width, 1)
        for name in ("clip_range", "max_grad_norm", "reward_scale"):
            check_positive(name, getattr(self, name))
        for name in ("target_kl", "clip_range_vf"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        for name in ("learning_rate", "value_coef", "entropy_coef", "action_bound_coef"):
            check_finite(name, getattr(self, name), 0.0)
        check_finite("init_log_std", self.init_log_std)
        check_probability("gamma", self.gamma)
        check_probability("gae_lambda", self.gae_lambda)
        if self.critic_hidden is None and not self.hidden:
            raise InputError("a critic without layers of its own shares the policy's, and there are none; give hidden")


class PPO:
    """A Gaussian policy and a critic."""

    def __init__(self, config: PPOConfig, spec: EnvSpec, seed: int, graphs: bool = True) -> None:
        """On CUDA, `graphs` lets iterations be recorded and replayed."""
        self.config = config
        self.generator = torch.Generator(spec.device).manual_seed(seed)
        self.normalizer = Normalizer(spec.obs_size, config.normalize_obs, spec.dtype).to(spec.device)
        self.value_normalizer = Normalizer(1, config.normalize_value, spec.dtype).to(spec.device)
        net = PPOActorCritic(
            spec.obs_size,
            spec.action_size,
            hidden=config.hidden,
            critic_hidden=config.critic_hidden,
            function=config.activation,
            log_std=config.init_log_std,
            rng=torch.Generator().manual_seed(seed),
        )
        self.net = net.to(spec.device, spec.dtype)
        self.learning_rate = torch.tensor(config.learning_rate, device=spec.device, dtype=torch.float32)
        self.optimizer = make_adam(self.net.parameters(), self.learning_rate, eps=EPS)
        self.learned = LearnedState(
            {
                "net": self.net.state_dict(),
                "normalizer": self.normalizer.state_dict(),
                "value_normalizer": self.value_normalizer.state_dict(),
                "optimizer": optimizer_tensors(self.optimizer),
                "adaptive": {"rate": self.learning_rate},
            }
        )
        """All that an iteration changes, but for chance."""
        self._policy_state = self.learned.select("net.trunk.", "net.policy.", "net.log_std", "normalizer.")
        self._cast = ExecutorSelector(self.generator, graphs)

    def act(self, obs: Tensor) -> Tensor:
        """The policy's best action for raw observations."""
        with torch.no_grad():
            action = self.net.mean(self.normalizer.frozen()(obs)).clamp(-1.0, 1.0)
            return finite_action(action, obs, self._policy_state)

    def iterate(self, env: Env, progress: float) -> IterationResult:
        """Collect experience, then learn from it."""
        laps = PhaseTimer(env.spec.device)
        self.learned.save()
        works = {"rollout": lambda _: self._collect(env), "learning": lambda given: self._learn(*given)}
        try:
            seen, names, told = self._cast.executor(env).run("iteration", works, laps.lap)
        except RolloutInterrupted as halt:
            return skipped(halt, env, self._policy_state)
        numbers = told.tolist()  # the one wait for the device
        values = dict(zip(names, numbers, strict=True))
        if values.pop("flaws") or not all(map(math.isfinite, numbers)):
            name = first_non_finite(self.learned.tensors)
            self.learned.restore()
            check_learned(self.learned.tensors)
            what = NONFINITE_UPDATE if name is None else f"{name} would not be finite; {KEPT}"
            trouble = diagnose_batch(seen.tensors, seen.steps, what, env.spec.reward_terms)
            env.reset_worlds(trouble.worlds)
            return IterationResult(seen.reward.numel(), {}, seen.steps, laps.seconds, trouble)
        return IterationResult(seen.reward.numel(), values, seen.steps, laps.seconds)

    def _collect(self, env: Env) -> tuple[Batch, FrozenNormalizer]:
        """An iteration's experience, and what its observations were seen through."""
        view = self.normalizer.frozen()

        def policy(obs: Tensor) -> Tensor:
            mean = self.net.mean(view(obs))
            noise = torch.randn(mean.shape, generator=self.generator, device=mean.device, dtype=mean.dtype)
            return torch.addcmul(mean, self.net.log_std.exp(), noise)

        return collect(env, policy, self.config.steps_per_env), view

    def _learn(self, seen: Batch, view: FrozenNormalizer) -> tuple[Batch, list[str], Tensor]:
        """Passes over an iteration's experience; names and numbers of what they tell, on the device."""
        c, log_std = self.config, self.net.log_std.detach().clone()
        widths, rows = self._rows(seen, view)
        steps = []
        for _ in range(c.epochs):
            order = torch.randperm(len(rows), generator=self.generator, device=rows.device)
            for chosen in order.tensor_split(c.minibatches):
                steps.append(self._descend(rows[chosen].split(widths, dim=-1), log_std))
        self.normalizer.update(seen.obs.flatten(0, 1))
        names = ("actor_loss", "critic_loss", "kl", "share_clipped", "actor_grad_norm")
        means = torch.stack([torch.stack(x) for x in steps]).mean(dim=0)
        told = {
            **dict(zip(names, means, strict=True)),
            "rate": self.learning_rate,
            "entropy": entropy(self.net.log_std.detach()),
            "flaws": nonfinite_worlds(seen.tensors).any() | ~self.learned.is_finite(),
        }
        return seen, list(told), torch.stack([x.to(self.learning_rate) for x in told.values()])

    @torch.no_grad()
    def _rows(self, seen: Batch, view: FrozenNormalizer) -> tuple[list[int], Tensor]:
        """[T N, ...] observation, action, policy's mean, log density, advantage, target and value; their widths."""
        c, obs = self.config, view(seen.obs)
        mean, value = self.net(obs)
        scale = self.value_normalizer.frozen()
        value = scale.denormalize(value)
        next_value = torch.where(seen.terminated, 0.0, scale.denormalize(self.net.value(view(seen.final_obs))))
        advantage = gae(c.reward_scale * seen.reward, value, next_value, seen.done, c.gamma, c.gae_lambda)
        target = advantage + value
        self.value_normalizer.update(target.reshape(-1, 1))
        scale = self.value_normalizer.frozen()
        spread, middle = torch.std_mean(advantage)
        density = log_prob(seen.action, mean, self.net.log_std)
        single = [density, (advantage - middle) / (spread + 1e-8), scale(target), scale(value)]
        parts = [obs, seen.action, mean, *(x[..., None] for x in single)]
        return [x.shape[-1] for x in parts], torch.cat(parts, dim=-1).flatten(0, 1)

    def _descend(self, minibatch: Sequence[Tensor], log_std: Tensor) -> tuple[Tensor, ...]:
        """One step; losses, divergence, share of clipped ratios, norm of the gradient."""
        c = self.config
        obs, action, old_mean, *single = minibatch
        density, advantage, target, old_value = (x.squeeze(-1) for x in single)
        mean, value = self.net(obs)
        log_ratio = log_prob(action, mean, self.net.log_std) - density
        actor_loss = clipped_surrogate(log_ratio, advantage, c.clip_range)
        critic_loss = clipped_value_loss(value, old_value, target, c.clip_range_vf)
        loss = actor_loss + c.value_coef * critic_loss + c.action_bound_coef * action_bound_loss(mean)
        if c.entropy_coef > 0.0:
            loss = loss - c.entropy_coef * entropy(self.net.log_std)
        with torch.no_grad():
            divergence = kl(old_mean, log_std, mean, self.net.log_std).mean()
            clipped = (log_ratio.exp() - 1.0).abs() > c.clip_range
            if c.target_kl is not None:
                self.learning_rate.copy_(adaptive_learning_rate(self.learning_rate, divergence, c.target_kl, RATES))
        norm = gradient_step(self.optimizer, loss, c.max_grad_norm)
        return actor_loss.detach(), critic_loss.detach(), divergence, clipped.to(divergence.dtype).mean(), norm

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that was learned, and all chance."""
        return {**self.learned.copies(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on exactly from a saved state; one that does not fit, or has no finite policy, changes nothing."""
        check_state(self.state_dict(), state)
        check_policy({name: state[name] for name in self._policy_state})
        restore_generator(self.generator, state["generator"])
        self.learned.load(state)
        self._cast.invalidate()
