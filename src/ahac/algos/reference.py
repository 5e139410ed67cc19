"""SHAC, AHAC, AHAC-1 and BPTT in plain torch, to read along with the paper.

One file, `loss.backward()`, no kernels, no CUDA graphs, no processes, no checkpoints. Comments give the lines of the
paper's Algorithm 1. `ShortHorizonActorCritic` computes the same faster; a test compares the two for every horizon rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise

import torch
from torch import Tensor, nn

from ahac.algos.config import CriticConfig, ShortHorizonConfig
from ahac.algos.parts.horizon import Bounds
from ahac.core.env import Env, EnvSpec, Step
from ahac.core.errors import InputError

__all__ = ["Reference"]

Normalize = Callable[[Tensor], Tensor]

BETAS = (0.7, 0.95)
"""Adam's coefficients β."""
FINAL_LEARNING_RATE = 1e-5
"""Learning rate at the end of all linear schedules."""
EPOCHS_BEFORE_PLATEAU = 6


class Reference:
    """A policy, a critic and a horizon, trained through a differentiable environment."""

    def __init__(self, config: ShortHorizonConfig, spec: EnvSpec, seed: int) -> None:
        check_supported(config)
        self.config = config
        self.spec = spec
        horizon = config.horizon
        self.rng = torch.Generator(spec.device).manual_seed(seed)
        self.actor = mlp([spec.obs_size, *config.actor.hidden, spec.action_size]).to(spec.device, spec.dtype)
        self.log_std = nn.Parameter(torch.full((spec.action_size,), config.actor.init_log_std, dtype=spec.dtype))
        self.actor_parameters = [*self.actor.parameters(), self.log_std]
        self.actor_optimizer = torch.optim.Adam(self.actor_parameters, lr=config.actor.learning_rate, betas=BETAS)
        members = 0 if config.critic is None else config.critic.num_critics
        hidden = () if config.critic is None else config.critic.hidden
        self.critics = [mlp([spec.critic_obs_size, *hidden, 1]).to(spec.device, spec.dtype) for _ in range(members)]
        self.targets = deepcopy(self.critics)
        self.critic_optimizers = [torch.optim.Adam(critic.parameters(), betas=BETAS) for critic in self.critics]
        self.statistics = Statistics(spec.obs_size, spec.dtype)
        self.critic_statistics = Statistics(spec.critic_obs_size, spec.dtype) if spec.asymmetric else self.statistics
        self.bounds = Bounds(horizon.min, horizon.max)
        self.horizon = horizon.initial if horizon.rule == "fixed" else self.bounds.clip(horizon.initial)
        self.phi = torch.zeros(horizon.max, dtype=torch.float64)
        self.lengths = [horizon.min]  # that the rule "esnr" tries
        while self.lengths[-1] < horizon.max:
            self.lengths.append(min(round(1.41 * self.lengths[-1]) + 1, horizon.max))
        self.esnr = [-math.inf] * len(self.lengths)
        self.best = min(range(len(self.lengths)), key=lambda i: abs(self.lengths[i] - self.horizon))
        self.tried = self.best
        self.updates = 0
        if horizon.rule == "esnr":
            self.horizon = self.lengths[self.best]

    def iterate(self, env: Env, progress: float) -> dict[str, float]:
        """Run one pass of the outer loop of Algorithm 1; `progress` runs from 0 to 1 over the training."""
        set_learning_rate([self.actor_optimizer], self.config.actor.learning_rate, progress)
        normalize = self.normalizer(self.statistics)
        normalize_critic = self.normalizer(self.critic_statistics)

        # Lines 6-12: roll out H steps of N worlds from where the last rollout ended.
        observations, critic_observations, steps, stiffness, ends = self.roll_out(env, normalize, round(self.horizon))

        # Line 13: ascend J(θ) with the gradient through the simulator.
        next_values = torch.stack([self.next_value(step, normalize_critic) for step in steps])
        loss = self.actor_loss([step.reward for step in steps], next_values, ends)
        (loss + self.constraint(stiffness)).backward()  # pyright: ignore[reportUnknownMemberType]
        nn.utils.clip_grad_norm_(self.actor_parameters, self.config.actor.max_grad_norm)
        self.actor_optimizer.step()  # pyright: ignore[reportUnknownMemberType]
        self.actor_optimizer.zero_grad()

        # Lines 14-15: update the multipliers and the horizon.
        self.update_horizon(stiffness.detach().mean(dim=1).double(), steps, progress)

        # Lines 16-19: fit the critics to TD(λ) targets until their loss has plateaued.
        targets = self.td_lambda([step.reward.detach() for step in steps], next_values.detach(), ends)
        epochs = self.fit_critics(normalize_critic(critic_observations), targets.flatten(), progress)
        if self.config.actor.normalize_obs:
            self.statistics.update(observations)
            if self.spec.asymmetric:
                self.critic_statistics.update(critic_observations)
        return {"actor_loss": float(loss.detach()), "critic_epochs": float(epochs), "horizon": float(len(steps))}

    def normalizer(self, statistics: Statistics) -> Normalize:
        """Return a function that normalizes observations by the current statistics, if that is enabled."""
        mean = statistics.mean
        std = (statistics.variance + 1e-5).sqrt()
        return lambda obs: (obs - mean) / std if self.config.actor.normalize_obs else obs

    def roll_out(
        self, env: Env, normalize: Normalize, length: int
    ) -> tuple[Tensor, Tensor, list[Step], Tensor, Tensor]:
        """Roll out the policy.

        Return [T N, obs] and [T N, critic_obs] observations of policy and critics, the steps, [T, N] stiffness, and
        [T, N] bool where a trajectory ends.
        """
        s = self.config.stiffness
        noise = [self.randn() for _ in range(length)]
        observations: list[Tensor] = []
        critic_observations: list[Tensor] = []
        steps: list[Step] = []
        stiffness: list[Tensor] = []
        ends: list[Tensor] = []
        age = torch.zeros(self.spec.num_envs)
        env.detach()
        for t in range(length):
            observations.append(env.obs.detach())
            critic_observations.append(env.critic_obs.detach())
            action = torch.tanh(self.actor(normalize(env.obs)) + self.log_std.exp() * noise[t])
            step = env.step(action)
            for x in (step.action, step.state.q, step.state.v):
                if x.requires_grad:
                    x.retain_grad()
            measured = env.stiffness(step, s.signal, s.probes if s.signal == "dynamics" else None)
            age = age + 1.0
            end = step.done
            if s.truncate:  # AHAC-1: truncate a world's trajectory where contact is too stiff
                cut = (measured.detach() > s.threshold) & (age >= s.min_steps) & ~step.done
                env.detach(cut)
                end = end | cut
            age = torch.where(end, 0.0, age)
            steps.append(step)
            stiffness.append(measured)
            ends.append(end)
        ends[-1] = torch.ones_like(ends[-1])
        seen, critic_seen = torch.cat(observations), torch.cat(critic_observations)
        return seen, critic_seen, steps, torch.stack(stiffness), torch.stack(ends)

    def actor_loss(self, rewards: list[Tensor], next_values: Tensor, ends: Tensor) -> Tensor:
        """Return −J(θ): discounted rewards of each trajectory and the value at its end, averaged over T N steps."""
        gamma = self.config.gamma
        total = torch.zeros_like(rewards[0])
        discount = torch.ones_like(total)
        for reward, next_value, end in zip(rewards, next_values, ends, strict=True):
            total = total + discount * (reward + torch.where(end, gamma * next_value, 0.0))
            discount = torch.where(end, 1.0, gamma * discount)
        return -total.sum() / ends.numel()

    def constraint(self, stiffness: Tensor) -> Tensor | float:
        """Return −φᵀ (C − ‖∇f‖) of the Lagrangian, if it is part of the objective."""
        if not self.config.stiffness.lagrangian or not stiffness.requires_grad:
            return 0.0
        phi = self.phi[: len(stiffness), None].to(stiffness.dtype)
        return (phi * (stiffness - self.config.stiffness.threshold)).mean()

    def randn(self) -> Tensor:
        """Draw [N, actions] action noise."""
        shape = (self.spec.num_envs, self.spec.action_size)
        return torch.randn(shape, generator=self.rng, device=self.spec.device, dtype=self.spec.dtype)

    def next_value(self, step: Step, normalize: Normalize) -> Tensor:
        """Return [N] V(s_{t+1}), the lowest of all critics, zero where the task ended the episode."""
        if self.config.critic is None:
            return torch.zeros_like(step.reward)
        critics = self.critics if self.config.critic.target_alpha is None else self.targets
        obs = normalize(step.final_critic_obs)
        values = torch.stack([critic(obs).squeeze(-1) for critic in critics]).amin(dim=0)
        return torch.where(step.terminated, 0.0, values)

    def td_lambda(self, rewards: list[Tensor], next_values: Tensor, ends: Tensor) -> Tensor:
        """Return [T, N] G_t = r_t + γ ((1 − λ) V_{t+1} + λ G_{t+1}), or r_t + γ V_{t+1} where a trajectory ends."""
        gamma = self.config.gamma
        lam = self.config.td_lambda
        targets: list[Tensor] = []
        following = next_values[-1]
        for t in reversed(range(len(rewards))):
            bootstrap = torch.where(ends[t], next_values[t], (1.0 - lam) * next_values[t] + lam * following)
            following = rewards[t] + gamma * bootstrap
            targets.append(following)
        return torch.stack(targets[::-1])

    def fit_critics(self, obs: Tensor, targets: Tensor, progress: float) -> int:
        """Regress every critic on the targets; return the number of epochs."""
        c = self.config.critic
        if c is None:
            return 0
        set_learning_rate(self.critic_optimizers, c.learning_rate, progress)
        losses: list[float] = []
        while len(losses) < c.epochs and not plateaued(losses, c):
            order = torch.randperm(len(obs), generator=self.rng) if c.shuffle else torch.arange(len(obs))
            batches = order.tensor_split(min(c.minibatches, len(obs)))
            losses.append(sum(self.fit_batch(obs[rows], targets[rows]) for rows in batches) / len(batches))
        if c.target_alpha is not None:
            for critic, target in zip(self.critics, self.targets, strict=True):
                for new, old in zip(critic.parameters(), target.parameters(), strict=True):
                    old.data.mul_(c.target_alpha).add_((1.0 - c.target_alpha) * new.data)
        return len(losses)

    def fit_batch(self, obs: Tensor, targets: Tensor) -> float:
        """Take one optimizer step with each critic; return the mean of their losses."""
        losses: list[float] = []
        for critic, optimizer in zip(self.critics, self.critic_optimizers, strict=True):
            loss = (critic(obs).squeeze(-1) - targets).square().mean()
            optimizer.zero_grad()
            loss.backward()
            assert self.config.critic is not None
            if self.config.critic.max_grad_norm is not None:
                nn.utils.clip_grad_norm_(critic.parameters(), self.config.critic.max_grad_norm)
            optimizer.step()  # pyright: ignore[reportUnknownMemberType]
            losses.append(float(loss.detach()))
        return sum(losses) / len(losses)

    def update_horizon(self, stiffness: Tensor, steps: list[Step], progress: float) -> None:
        """Apply the horizon rule to the [T] stiffness or to the gradients of the backward pass."""
        h = self.config.horizon
        limit = self.config.stiffness.threshold
        if h.rule in ("paper", "released"):
            # φ <- φ − α (C − ‖∇f‖), clamped at zero in the paper;  H <- H + α Σ φ
            alpha = scheduled(h.learning_rate, progress)
            length = len(stiffness)
            phi = self.phi[:length] - alpha * (limit - stiffness)
            self.phi[:length] = phi if h.rule == "released" else phi.clamp(min=0.0)
            self.horizon = self.bounds.clip(self.horizon + alpha * float(self.phi[:length].sum()))
            if h.rule == "released":
                self.phi[:] = self.phi[0].item()
        elif h.rule == "shrink":
            self.scale_horizon((limit - float(stiffness.mean())) / limit)
        elif h.rule == "growth":
            norms = [state_gradient(step).square().sum(dim=-1).mean().sqrt() for step in steps[1:]]
            quarter = max(len(norms) // 4, 1)
            growth = float(sum(norms[:quarter]) / sum(norms[-quarter:])) if norms else 1.0
            self.scale_horizon((math.log(h.growth_limit) - math.log(growth)) / math.log(h.growth_limit))
        elif h.rule == "esnr":
            gradients = torch.stack([grad_of(step.action) for step in steps])
            signal = gradients.mean(dim=1).square().sum()
            noise = gradients.var(dim=1, correction=0).sum()
            self.climb(float(signal / noise))

    def climb(self, esnr: float) -> None:
        """Remember the ratio of this length. Every fourth time move to the best neighbor, or try the next one."""
        old = self.esnr[self.tried]
        self.esnr[self.tried] = esnr if old == -math.inf else 0.9 * old + 0.1 * esnr
        self.updates += 1
        if self.updates % 4 == 0:
            neighbors = [i for i in (self.best, self.best - 1, self.best + 1) if i in range(len(self.lengths))]
            self.best = max(neighbors, key=lambda i: self.esnr[i])
            self.tried = self.best + (0, 1, 0, -1)[self.updates // 4 % 4]
            if self.tried not in range(len(self.lengths)):
                self.tried = self.best
        self.horizon = self.lengths[self.tried]

    def scale_horizon(self, ratio: float) -> None:
        """Set H <- H exp(speed · ratio), with the ratio clipped to ±1."""
        self.horizon = self.bounds.clip(self.horizon * math.exp(self.config.horizon.speed * min(max(ratio, -1.0), 1.0)))


class Statistics:
    """Running mean and variance of observations."""

    def __init__(self, size: int, dtype: torch.dtype) -> None:
        self.mean = torch.zeros(size, dtype=dtype)
        self.variance = torch.ones(size, dtype=dtype)
        self.count = 1e-4

    def update(self, batch: Tensor) -> None:
        """Merge the mean and variance of [B, obs] observations."""
        mean = batch.mean(dim=0)
        variance = batch.var(dim=0, correction=0)
        total = self.count + len(batch)
        delta = mean - self.mean
        share = len(batch) / total
        self.variance = self.variance * (1 - share) + variance * share + delta.square() * share * (1 - share)
        self.mean = self.mean + delta * share
        self.count = total


def mlp(widths: list[int]) -> nn.Sequential:
    """Return a network with linear, ELU and layer norm for every hidden layer, then a linear output."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths[:-1]):
        layers += [nn.Linear(inputs, outputs), nn.ELU(), nn.LayerNorm(outputs)]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


def set_learning_rate(optimizers: list[torch.optim.Adam], initial: float, progress: float) -> None:
    """Set the learning rate."""
    for optimizer in optimizers:
        optimizer.param_groups[0]["lr"] = scheduled(initial, progress)


def scheduled(initial: float, progress: float) -> float:
    """Return a learning rate that changes linearly to 1e-5 over the training; 0 stays 0."""
    return initial + (FINAL_LEARNING_RATE - initial) * progress if initial else 0.0


def plateaued(losses: list[float], config: CriticConfig) -> bool:
    """Return whether the mean change of the loss over five epochs is below the tolerance."""
    if config.plateau_tolerance is None or len(losses) < EPOCHS_BEFORE_PLATEAU:
        return False
    return abs(losses[-2] - losses[-6]) / 4.0 < config.plateau_tolerance


def grad_of(x: Tensor) -> Tensor:
    """Return the gradient of a tensor, or zeros if it has none."""
    return torch.zeros_like(x) if x.grad is None else x.grad


def state_gradient(step: Step) -> Tensor:
    """Return the [N, nq + nv] gradient of the loss with respect to the state before a step."""
    return torch.cat([grad_of(step.state.q), grad_of(step.state.v)], dim=-1)


def check_supported(config: ShortHorizonConfig) -> None:
    """Raise if the settings are not those of the paper's algorithms."""
    actor, critic = config.actor, config.critic
    others = {
        "update": not config.update.plain,
        "entropy": config.entropy.enabled,
        "bundle": config.bundle.enabled,
        "actor": actor.state_std or actor.activation != "elu" or actor.weight_decay > 0.0,
        "critic": critic is not None
        and (critic.activation != "elu" or critic.actor_value != "min" or critic.weight_decay > 0.0),
    }
    if found := [name for name, differs in others.items() if differs]:
        raise InputError(
            f"the reference has the paper's algorithms only, got other settings of {', '.join(found)}; use "
            "ShortHorizonActorCritic, or the defaults of these settings"
        )
