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
from ahac.algos.parts import gauge, horizon_rule
from ahac.core.env import Env, EnvSpec
from ahac.nets.actor import Actor
from ahac.nets.adam import adam, moments, set_moments
from ahac.nets.critic import Critic
from ahac.nets.descent import descent
from ahac.nets.normalizer import Normalizer
from ahac.rl.critic_fit import CriticFit, Plateau, never
from ahac.rl.diagnostics import action_gradients, adjoint_norms, esnr, keep_gradients
from ahac.rl.gradient_horizon import overall_growth
from ahac.rl.horizon import Signals
from ahac.rl.laps import Laps
from ahac.rl.losses import constraint, short_horizon
from ahac.rl.returns import td_lambda
from ahac.rl.rollout import Rollout, roll_out
from ahac.rl.schedule import linear, set_rate
from ahac.rl.trouble import find_trouble

__all__ = ["FirstOrder"]


class FirstOrder:
    """An actor, a critic or none, and a horizon."""

    def __init__(self, config: FirstOrderConfig, spec: EnvSpec, seed: int) -> None:
        cpu = torch.Generator().manual_seed(seed)
        self.config, self.horizon = config, horizon_rule(config)
        self._probes = config.stiffness.probes if config.stiffness.signal == "dynamics" else None
        self.gauge = gauge(config, self.horizon, self._probes)
        self.generator = torch.Generator(spec.device).manual_seed(seed)
        self.normalizer = Normalizer(spec.obs_size, config.actor.normalize, spec.dtype).to(spec.device)
        actor = Actor(spec.obs_size, spec.action_size, config.actor.hidden, log_std=config.actor.log_std, rng=cpu)
        self.actor = actor.to(spec.device, spec.dtype)
        self.actor_optimizer = adam(self.actor, config.actor.rate)
        self.critic = self.target = self.fit = None
        if (c := config.critic) is not None:
            self.critic = Critic(spec.obs_size, c.hidden, members=c.members, rng=cpu).to(spec.device, spec.dtype)
            self.target = None if c.target_alpha is None else deepcopy(self.critic).requires_grad_(False)
            self.critic_optimizer = adam(self.critic, c.rate)
            self.fit = CriticFit(
                descent(self.critic, self.critic_optimizer, c.max_norm), passes=c.passes, minibatches=c.minibatches,
                stop=never if c.plateau is None else Plateau(c.plateau), rng=self.generator, shuffle=c.shuffle,
            )  # fmt: skip

    def act(self, obs: Tensor) -> Tensor:
        """The policy's best action for raw observations."""
        with torch.no_grad():
            return self.actor(self.normalizer.view()(obs))

    def iterate(self, env: Env, progress: float) -> Report:
        """Roll out, step the actor, fit the critic, learn the horizon."""
        self._set_rates(progress)
        laps = Laps()
        rollout = roll_out(env, self._policy(env), self.normalizer.view(), self.horizon.steps, self.gauge)
        for step in rollout.steps:
            keep_gradients(step, states="growth" in self.horizon.needs)
        next_value = self._next_values(rollout)
        loss = short_horizon(rollout, next_value, self.config.gamma)
        laps.mark("rollout")
        values = self._step_actor(loss + self._constraint(rollout), rollout) | {"actor_loss": loss.item()}
        laps.mark("gradient")
        if not math.isfinite(values["actor_grad_norm"]):
            # Nothing is learnt from this rollout; the worlds that spoilt it begin anew.
            trouble = find_trouble(rollout, next_value)
            env.restart(trouble.worlds)
            values = {"horizon": float(len(rollout.steps))}
            return Report(rollout.reward.numel(), values, rollout.steps, laps.seconds, trouble)
        values |= self._fit_critic(rollout, next_value.detach())
        laps.mark("critic")
        if not math.isfinite(values.get("critic_loss", 0.0)):
            trouble = find_trouble(
                rollout, next_value, "the critic's loss is not finite; it is as it was before this fit"
            )
            return Report(rollout.reward.numel(), values, rollout.steps, laps.seconds, trouble)
        self.normalizer.update(rollout.raw_obs.flatten(0, 1))
        values |= self._measured(env, rollout)
        self._learn_horizon(rollout, values, progress)
        laps.mark("rest")
        return Report(rollout.reward.numel(), values, rollout.steps, laps.seconds)

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

    def _step_actor(self, objective: Tensor, rollout: Rollout) -> dict[str, float]:
        self.actor_optimizer.zero_grad(set_to_none=True)
        objective.backward()
        norm = nn.utils.clip_grad_norm_(self.actor.parameters(), self.config.actor.max_norm)
        # An infinite reward or stiffness may have a finite gradient, and would spoil the critic or the horizon.
        sound = math.isfinite(objective.item()) and (
            rollout.stiffness is None or bool(torch.isfinite(rollout.stiffness).all())
        )
        before = norm.item() if sound else math.nan
        if math.isfinite(before):
            self.actor_optimizer.step()
        return {"actor_grad_norm": before, "actor_grad_norm_clipped": min(before, self.config.actor.max_norm)}

    def _fit_critic(self, rollout: Rollout, next_value: Tensor) -> dict[str, float]:
        if self.fit is None or self.critic is None:
            return {}
        targets = td_lambda(rollout.reward.detach(), next_value, rollout.cut, self.config.gamma, self.config.lam)
        theta, memory = (
            self.critic.theta.detach().clone(),
            {k: x.clone() for k, x in moments(self.critic_optimizer).items()},
        )
        report = self.fit(rollout.obs.flatten(0, 1), targets.flatten())
        if not math.isfinite(report.loss):
            with torch.no_grad():
                self.critic.theta.copy_(theta)
            set_moments(self.critic_optimizer, memory)
            return {"critic_loss": report.loss, "critic_passes": float(report.passes)}
        if self.target is not None and self.config.critic is not None:
            kept = self.config.critic.target_alpha or 0.0
            for old, new in zip(self.target.parameters(), self.critic.parameters(), strict=True):
                old.lerp_(new.detach(), 1.0 - kept)
        return {"critic_loss": report.loss, "critic_passes": float(report.passes), "value": next_value.mean().item()}

    def _measured(self, env: Env, rollout: Rollout) -> dict[str, float]:
        """What a rollout and its backward pass tell; stiffness of the last step, where nothing looks at the others."""
        stiffness = rollout.stiffness
        if stiffness is None:
            with torch.no_grad():
                stiffness = env.stiffness(rollout.steps[-1], self.config.stiffness.signal, self._probes)
        return {
            "horizon": float(len(rollout.steps)),
            "esnr": esnr(action_gradients(rollout.steps)),
            "share_cut": rollout.stiff.float().mean().item(),
            "stiffness": stiffness.detach().mean().item(),
            "stiffness_max": stiffness.detach().max().item(),
        }

    def _learn_horizon(self, rollout: Rollout, values: dict[str, float], progress: float) -> None:
        """Let the rule see what it needs."""
        growth = stiffness = None
        if "growth" in self.horizon.needs:
            growth = adjoint_norms(rollout.steps)
            values["growth"] = overall_growth(growth)
        if rollout.stiffness is not None:
            stiffness = rollout.stiffness.detach().mean(dim=1)
        signals = Signals(stiffness=stiffness, growth=growth, esnr=values["esnr"])
        rate = self.config.horizon.rate
        self.horizon.update(signals, linear(rate, progress) / rate if rate > 0.0 else 0.0)

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
            "actor_optimizer": moments(self.actor_optimizer),
        }
        if self.critic is not None:
            parts |= {"critic": self.critic.state_dict(), "critic_optimizer": moments(self.critic_optimizer)}
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
        set_moments(self.actor_optimizer, part("actor_optimizer"))
        if self.critic is not None:
            self.critic.load_state_dict(part("critic"))
            set_moments(self.critic_optimizer, part("critic_optimizer"))
        if self.target is not None:
            self.target.load_state_dict(part("target"))
        self.generator.set_state(state["generator"].cpu())
