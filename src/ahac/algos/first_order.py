"""First-order actor-critic learning through a differentiable simulator: the loop that SHAC, AHAC and BPTT share.

One iteration: roll out, differentiate the discounted return with a value at its end, step the actor; fit the critic to
TD(λ) targets; let the horizon learn from what was measured. The algorithms differ by the parts they are built from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import deepcopy

import torch
from torch import Tensor, nn

from ahac.algos.algorithm import Report
from ahac.algos.config import FirstOrderConfig
from ahac.core.checks import whole_number
from ahac.core.env import Env, EnvSpec
from ahac.core.errors import InputError
from ahac.nets.actor import Actor
from ahac.nets.critic import Critic
from ahac.nets.normalizer import Normalizer
from ahac.rl.critic_fit import CriticFit, Plateau, never
from ahac.rl.diagnostics import action_gradients, adjoint_norms, esnr, keep_gradients
from ahac.rl.horizon import (
    Bounds,
    DualHorizon,
    EsnrHorizon,
    FixedHorizon,
    GrowthHorizon,
    HorizonRule,
    ShrinkHorizon,
    Signals,
)
from ahac.rl.losses import constraint, short_horizon
from ahac.rl.returns import td_lambda
from ahac.rl.rollout import Gauge, Rollout, roll_out
from ahac.rl.schedule import linear, set_rate
from ahac.rl.trouble import find_trouble

__all__ = ["FirstOrder", "horizon_rule"]

BETAS = (0.7, 0.95)
"""Of Adam, as in SHAC and its successors."""


class FirstOrder:
    """An actor, a critic or none, and a horizon."""

    def __init__(self, config: FirstOrderConfig, spec: EnvSpec, seed: int) -> None:
        cpu = torch.Generator().manual_seed(seed)
        self.config, self.horizon = config, horizon_rule(config)
        self.gauge = _gauge(config, self.horizon)
        self.generator = torch.Generator(spec.device).manual_seed(seed)
        self.normalizer = Normalizer(spec.obs_size, config.actor.normalize, spec.dtype).to(spec.device)
        actor = Actor(spec.obs_size, spec.action_size, config.actor.hidden, log_std=config.actor.log_std, rng=cpu)
        self.actor = actor.to(spec.device, spec.dtype)
        self.actor_optimizer = _adam(self.actor, config.actor.rate)
        self.critic = self.target = self.fit = None
        if (c := config.critic) is not None:
            self.critic = Critic(spec.obs_size, c.hidden, members=c.members, rng=cpu).to(spec.device, spec.dtype)
            self.target = None if c.target_alpha is None else deepcopy(self.critic).requires_grad_(False)
            self.critic_optimizer = _adam(self.critic, c.rate)
            self.fit = CriticFit(
                self.critic, self.critic_optimizer, passes=c.passes, minibatches=c.minibatches,
                stop=never if c.plateau is None else Plateau(c.plateau), max_norm=c.max_norm, rng=self.generator,
                shuffle=c.shuffle,
            )  # fmt: skip

    def act(self, obs: Tensor) -> Tensor:
        """The policy's best action for raw observations."""
        with torch.no_grad():
            return self.actor(self.normalizer.view()(obs))

    def iterate(self, env: Env, progress: float) -> Report:
        """Roll out, step the actor, fit the critic, learn the horizon."""
        self._set_rates(progress)
        rollout = roll_out(env, self._policy(env), self.normalizer.view(), self.horizon.steps, self.gauge)
        for step in rollout.steps:
            keep_gradients(step, states="growth" in self.horizon.needs)
        next_value = self._next_values(rollout)
        loss = short_horizon(rollout, next_value, self.config.gamma)
        values = self._step_actor(loss + self._constraint(rollout)) | {"actor_loss": loss.item()}
        if not math.isfinite(values["actor_grad_norm"]):
            # Nothing is learnt from this rollout; the worlds that spoilt it begin anew.
            trouble = find_trouble(rollout)
            env.restart(trouble.worlds)
            return Report(rollout.reward.numel(), {"horizon": float(len(rollout.steps))}, rollout.steps, trouble)
        values |= self._fit_critic(rollout, next_value.detach())
        self.normalizer.update(rollout.raw_obs.flatten(0, 1))
        values |= self._learn_horizon(rollout, progress)
        return Report(rollout.reward.numel(), values, rollout.steps)

    def _policy(self, env: Env) -> Callable[[Tensor], Tensor]:
        shape = (env.spec.num_envs, env.spec.action_size)

        def policy(obs: Tensor) -> Tensor:
            noise = torch.randn(shape, generator=self.generator, device=env.spec.device, dtype=env.spec.dtype)
            return self.actor(obs, noise)

        return policy

    def _next_values(self, rollout: Rollout) -> Tensor:
        """[T, N] V(s_{t+1}), zero where the task ended the episode, or where there is no critic."""
        if self.critic is None:
            return torch.zeros_like(rollout.reward)
        network = self.target or self.critic
        return torch.where(rollout.terminated, 0.0, network(rollout.final_obs))

    def _constraint(self, rollout: Rollout) -> Tensor | float:
        """−φᵀ (C − ‖∇f‖), where the objective has it and the signal a gradient."""
        phi = self.horizon.multipliers()
        stiffness, c = rollout.stiffness, self.config.stiffness
        if not c.lagrangian or phi is None or stiffness is None or not stiffness.requires_grad:
            return 0.0
        return constraint(stiffness, phi[: len(stiffness)].to(stiffness), c.threshold)

    def _step_actor(self, objective: Tensor) -> dict[str, float]:
        self.actor_optimizer.zero_grad(set_to_none=True)
        objective.backward()
        norm = nn.utils.clip_grad_norm_(self.actor.parameters(), self.config.actor.max_norm)
        before = norm.item()
        if math.isfinite(before):
            self.actor_optimizer.step()
        return {"actor_grad_norm": before, "actor_grad_norm_clipped": min(before, self.config.actor.max_norm)}

    def _fit_critic(self, rollout: Rollout, next_value: Tensor) -> dict[str, float]:
        if self.fit is None or self.critic is None:
            return {}
        targets = td_lambda(rollout.reward.detach(), next_value, rollout.cut, self.config.gamma, self.config.lam)
        report = self.fit(rollout.obs.flatten(0, 1), targets.flatten())
        if self.target is not None and self.config.critic is not None:
            kept = self.config.critic.target_alpha or 0.0
            for old, new in zip(self.target.parameters(), self.critic.parameters(), strict=True):
                old.lerp_(new.detach(), 1.0 - kept)
        return {"critic_loss": report.loss, "critic_passes": float(report.passes), "value": next_value.mean().item()}

    def _learn_horizon(self, rollout: Rollout, progress: float) -> dict[str, float]:
        ratio = esnr(action_gradients(rollout.steps))
        growth = adjoint_norms(rollout.steps) if "growth" in self.horizon.needs else None
        values = {"horizon": float(len(rollout.steps)), "esnr": ratio, "share_cut": rollout.stiff.float().mean().item()}
        stiffness = None
        if rollout.stiffness is not None:
            measured = rollout.stiffness.detach()
            stiffness = measured.mean(dim=1)
            values |= {"stiffness": measured.mean().item(), "stiffness_max": measured.max().item()}
        if growth is not None:
            values["growth"] = float(growth[0] / growth[-1])
        self.horizon.update(Signals(stiffness=stiffness, growth=growth, esnr=ratio), linear(1.0, progress, 0.0))
        return values

    def _set_rates(self, progress: float) -> None:
        set_rate([self.actor_optimizer], linear(self.config.actor.rate, progress))
        if self.config.critic is not None:
            set_rate([self.critic_optimizer], linear(self.config.critic.rate, progress))

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that was learnt, and all chance."""
        parts: dict[str, Mapping[str, Tensor]] = {
            "actor": self.actor.state_dict(),
            "normalizer": self.normalizer.state_dict(),
            "horizon": self.horizon.state_dict(),
            "actor_optimizer": _moments(self.actor_optimizer),
        }
        if self.critic is not None:
            parts |= {"critic": self.critic.state_dict(), "critic_optimizer": _moments(self.critic_optimizer)}
        if self.target is not None:
            parts |= {"target": self.target.state_dict()}
        flat = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
        own = {"generator": self.generator.get_state()}
        return {name: value.detach().clone() for name, value in flat.items()} | own

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on exactly from a saved state."""

        def part(name: str) -> dict[str, Tensor]:
            return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}

        self.actor.load_state_dict(part("actor"))
        self.normalizer.load_state_dict(part("normalizer"))
        self.horizon.load_state_dict(part("horizon"))
        _set_moments(self.actor_optimizer, part("actor_optimizer"))
        if self.critic is not None:
            self.critic.load_state_dict(part("critic"))
            _set_moments(self.critic_optimizer, part("critic_optimizer"))
        if self.target is not None:
            self.target.load_state_dict(part("target"))
        self.generator.set_state(state["generator"].cpu())


def horizon_rule(config: FirstOrderConfig) -> HorizonRule:
    """The rule that a configuration names."""
    h, limit = config.horizon, config.stiffness.threshold
    bounds = Bounds(h.least, h.most)
    match h.rule:
        case "fixed":
            return FixedHorizon(whole_number("horizon.first", round(h.first), 1))
        case "paper" | "released":
            signed = h.rule == "released"
            return DualHorizon(bounds, h.first, limit=limit, learning_rate=h.rate, signed=signed)
        case "shrink":
            return ShrinkHorizon(bounds, h.first, limit=limit, speed=h.speed)
        case "growth":
            return GrowthHorizon(bounds, h.first, limit=math.log(h.growth), speed=h.speed)
        case "esnr":
            return EsnrHorizon(bounds, h.first)
    raise InputError(f"no horizon rule named {h.rule!r}; known: fixed, paper, released, shrink, growth, esnr")


def _gauge(config: FirstOrderConfig, horizon: HorizonRule) -> Gauge | None:
    """Stiffness is measured only where something looks at it."""
    s = config.stiffness
    if not (s.truncate or s.lagrangian or "stiffness" in horizon.needs):
        return None
    probes = s.probes if s.signal == "dynamics" else None
    cut_above = s.threshold if s.truncate else None
    return Gauge(signal=s.signal, probes=probes, cut_above=cut_above, least_steps=s.least_steps)


def _adam(network: nn.Module, rate: float) -> torch.optim.Adam:
    return torch.optim.Adam(network.parameters(), lr=rate, betas=BETAS, fused=True)


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimizer's memory, by parameter number and name."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": value for i, values in state.items() for name, value in values.items()}


def _set_moments(optimizer: torch.optim.Optimizer, moments: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in moments.items():
        number, name = key.split(".")
        state.setdefault(int(number), {})[name] = value.clone()
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
