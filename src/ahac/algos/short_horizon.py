"""Short-horizon actor-critic through a differentiable simulator: the loop of AHAC, SHAC, SAPO, RPO, IVW-H and BPTT.

`iterate` is one pass of the outer loop of the paper's Algorithm 1. The algorithms differ by their settings alone:
`algos/shac.py`, `ahac.py`, `sapo.py`, ... define these; `algos/reference.py` has AHAC, AHAC-1, SHAC and BPTT in plain
torch.

Methods marked `@stage` only queue work on the device; failed updates are masked there. Apart from the stop flag of
the critic fit, the host reads nothing before `_fetch`. Several ranks roll out a share of the worlds each and apply the
same update.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ahac.algos.algorithm import IterationResult
from ahac.algos.builders import horizon_rule, stiffness_monitor
from ahac.algos.config import ShortHorizonConfig
from ahac.algos.finite_checks import UNDONE, check_learned, check_policy, finite_action, skip_iteration
from ahac.algos.networks import BUILT_IN, Networks, make_actor, make_critic
from ahac.algos.parts.actor_step import ActorStep
from ahac.algos.parts.critic_fit import CriticFit
from ahac.algos.parts.entropy_bonus import EntropyBonus, collecting
from ahac.algos.parts.gradient_horizon import overall_growth
from ahac.algos.parts.horizon import Signals
from ahac.algos.parts.next_values import next_values
from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.env import Env, EnvSpec
from ahac.core.errors import NonFiniteError
from ahac.core.rng import restore_generator
from ahac.nets.critic_training import make_critic_epoch
from ahac.nets.normalizer import Normalizer
from ahac.nets.optim import optimizer_tensors, shac_adam
from ahac.nets.policy_layers import policy_layers
from ahac.nets.rollout_policy import make_rollout_policy
from ahac.nets.state_dicts import LearnedState, check_state, first_non_finite, flatten, section
from ahac.rl.diagnostics import esnr, mean_square_adjoints
from ahac.rl.losses import constraint, short_horizon
from ahac.rl.nonfinite import NonFiniteReport, diagnose_rollout
from ahac.rl.returns import td_lambda, weighted_advantages
from ahac.rl.rollout import Rollout, roll_out
from ahac.rl.schedule import linear_schedule, set_learning_rate
from ahac.rl.stepping import RolloutInterrupted
from ahac.rl.update import ActorUpdate, RolloutBuffer
from ahac.runtime.stages import stage
from ahac.runtime.timer import PhaseTimer
from ahac.runtime.transfer import fetch

__all__ = ["ShortHorizonActorCritic"]


@dataclass(frozen=True, eq=False)
class _HostMetrics:
    """An iteration's numbers on the host."""

    valid: bool
    """Whether the policy's gradient and everything it came from are finite."""
    finite: bool
    """Whether everything learned is still finite."""
    values: dict[str, float]
    signals: Signals


class ShortHorizonActorCritic:
    """A policy, a critic or none, and a horizon."""

    def __init__(
        self,
        config: ShortHorizonConfig,
        spec: EnvSpec,
        seed: int,
        ranks: ProcessGroup = SINGLE_PROCESS,
        networks: Networks = BUILT_IN,
    ) -> None:
        """Build everything that learns; `spec` describes the worlds of this rank."""
        cpu = torch.Generator().manual_seed(seed)
        self.config = config
        self.device = spec.device
        self.ranks = ranks
        self.horizon = horizon_rule(config)
        self._probes = config.stiffness.probes if config.stiffness.signal == "dynamics" else None
        self.monitor = stiffness_monitor(config, self.horizon, self._probes)
        self.generator = torch.Generator(spec.device).manual_seed(seed)
        self.normalizer = Normalizer(spec.obs_size, config.actor.normalize_obs, spec.dtype).to(spec.device)
        self.critic_normalizer = None
        if spec.asymmetric and config.critic is not None:
            self.critic_normalizer = self.normalizer.like(spec.critic_obs_size)
        self.actor = make_actor(config.actor, spec, seed, cpu, networks)
        self._policy = make_rollout_policy(self.actor, config.entropy.enabled)
        self.actor_optimizer = shac_adam(self.actor, config.actor.learning_rate, config.actor.weight_decay)
        self.actor_step = ActorStep(self.actor, self.actor_optimizer, config.actor.max_grad_norm, config.update, ranks)
        self.entropy_bonus = None
        if config.entropy.enabled:
            self.entropy_bonus = EntropyBonus(config.entropy, spec.action_size, spec.device, spec.dtype)
        self.critic = self.target = self.fit = None
        if (c := config.critic) is not None:
            self.critic = make_critic(c, spec, seed, cpu, networks)
            self.target = None if c.target_alpha is None else deepcopy(self.critic).requires_grad_(False)
            self.critic.theta.grad = torch.zeros_like(self.critic.theta)
            self.critic_optimizer = shac_adam(self.critic, c.learning_rate, c.weight_decay)
            self.fit = CriticFit(
                make_critic_epoch(self.critic, self.critic_optimizer, c.max_grad_norm),
                self.critic_optimizer,
                epochs=c.epochs,
                minibatches=c.minibatches,
                tolerance=c.plateau_tolerance,
                rng=self.generator,
                shuffle=c.shuffle,
                ranks=ranks,
            )
        self.learned = LearnedState(self._sections())
        """Everything an iteration changes, except the horizon and the generator."""
        self.policy_state = self.learned.select("actor.", "normalizer.")
        """Tensors on which `act` depends."""
        self._phi = torch.zeros(config.horizon.max, device=spec.device, dtype=spec.dtype)

    def act(self, obs: Tensor) -> Tensor:
        """Return the mode of the policy for raw observations."""
        with torch.no_grad():
            return finite_action(self.actor(self.normalizer.frozen()(obs)), obs, self.policy_state)

    def policy_layers(self) -> nn.Sequential:
        """Return the mode of the policy as layers, from raw observations to actions."""
        return policy_layers(self.normalizer, self.actor.mean_net(), nn.Tanh())

    def iterate(self, env: Env, progress: float) -> IterationResult:
        """Run one pass of the outer loop of Algorithm 1; comments give its lines."""
        self.learned.save()
        self._set_learning_rates(progress)
        self._load_multipliers()
        timer = PhaseTimer(self.device)
        try:
            buffer = self._roll_out(env, self.horizon.steps)  # 6-12: roll out π_θ for H steps into D
        except RolloutInterrupted as interruption:
            return self._skip(interruption, env)
        timer.lap("rollout")
        update = self._update_actor(buffer)  # 13: θ ← θ + α_θ ∇_θ L_π(θ, φ)
        timer.lap("gradient")
        fit = self._fit_critic(buffer, update)  # 16-19: fit ψ to TD(λ) targets until the loss has plateaued
        timer.lap("critic")
        metrics = self._fetch(update, fit)
        failure = self._handle_nonfinite(env, buffer, metrics)
        if failure is None:
            self.horizon.update(metrics.signals, self._dual_step_scale(progress))  # 14-15: φ, then H
        timer.lap("rest")
        return self._result(buffer.rollout, metrics, timer, failure)

    # ------------------------------------------------------------------------------------------ lines 6-12: rollout

    @stage
    def _roll_out(self, env: Env, length: int) -> RolloutBuffer:
        """Roll out the policy from where the last rollout ended, and evaluate the critic on the states it reached."""
        noise = self._draw_noise(env.spec, length)
        noise_of_step = iter(noise)
        normalize = self.normalizer.frozen()
        entropies: list[Tensor] = []
        if self.entropy_bonus is None:
            sample = self._policy.sampler(normalize)
        else:
            sample = collecting(self._policy.entropy_sampler(normalize), entropies)
        normalize_critic = None if self.critic_normalizer is None else self.critic_normalizer.frozen()
        bundle = self.config.bundle
        rollout = roll_out(
            env, lambda obs: sample(obs, next(noise_of_step)), normalize, length, self.monitor, normalize_critic, bundle
        )
        entropy = torch.stack(entropies) if entropies else None
        if self.entropy_bonus is not None and entropy is not None:
            rollout = replace(rollout, reward=rollout.reward + self.entropy_bonus(entropy))
        actor_value = "min" if self.config.critic is None else self.config.critic.actor_value
        next_value, target_value = next_values(self.target or self.critic, rollout, actor_value)
        stiffness = rollout.stiffness
        if stiffness is None:  # only logged, for the last step
            with torch.no_grad():
                stiffness = env.stiffness(rollout.steps[-1], self.config.stiffness.signal, self._probes)
        return RolloutBuffer(
            rollout=rollout,
            noise=noise,
            next_value=next_value,
            target_value=target_value,
            entropy=entropy,
            stiffness=stiffness.detach(),
        )

    def _draw_noise(self, spec: EnvSpec, length: int) -> Tensor:
        """Return [T, N, actions] action noise of this rank's worlds, drawn per step to be independent of `length`."""
        shape = (spec.num_envs * self.ranks.size, spec.action_size)
        draws = [
            torch.randn(shape, generator=self.generator, device=spec.device, dtype=spec.dtype) for _ in range(length)
        ]
        return torch.stack([self.ranks.local_slice(draw) for draw in draws])

    # ---------------------------------------------------------------------------------------------- line 13: actor

    @stage
    def _update_actor(self, buffer: RolloutBuffer) -> ActorUpdate:
        """Differentiate the objective through the rollout, step the actor, and compute what the critic learns from."""
        c = self.config
        rollout = buffer.rollout
        loss = short_horizon(rollout, buffer.next_value, c.gamma)
        objective = loss + self._constraint(rollout)  # −L_π(θ, φ), eq:lagrangian
        needs_growth = "growth" in self.horizon.needs
        gradients = self.actor_step.backward(objective, buffer, states=needs_growth)
        targets = td_lambda(rollout.reward.detach(), buffer.target_value, rollout.cut, c.gamma, c.td_lambda)
        advantages = self._advantages(buffer, targets)
        norm, valid, more = self.actor_step.step(objective.detach(), buffer, gradients, advantages)
        ranks = self.ranks
        more |= self._update_temperature(buffer, valid)
        if self.normalizer.enabled:
            self.normalizer.update(ranks.gather(rollout.raw_obs, dim=1).flatten(0, 1), valid)
            if self.critic_normalizer is not None:
                self.critic_normalizer.update(ranks.gather(rollout.raw_critic_obs, dim=1).flatten(0, 1), valid)
        means = {
            "actor_loss": loss.detach(),
            "actor_grad_norm": norm,
            "esnr": esnr(ranks.gather(gradients.action, dim=1)),
            **rollout.shares,
            "stiffness": buffer.stiffness.mean(),
            **more,
        }
        return ActorUpdate(
            valid=valid,
            critic_obs=ranks.gather(rollout.critic_obs, dim=1).flatten(0, 1),
            targets=ranks.gather(targets, dim=1).flatten(),
            metrics={**ranks.means(means), "stiffness_max": ranks.max(buffer.stiffness.max())},
            stiffness=None if rollout.stiffness is None else ranks.mean(buffer.stiffness.mean(dim=1)),
            adjoint_norms=ranks.mean(mean_square_adjoints(rollout.steps)).sqrt() if needs_growth else None,
        )

    def _constraint(self, rollout: Rollout) -> Tensor | float:
        """Return −φᵀ (C − ‖∇f‖), if it is part of the objective and the signal is differentiable."""
        stiffness = rollout.stiffness
        c = self.config.stiffness
        if not c.lagrangian or stiffness is None or not stiffness.requires_grad:
            return 0.0
        return constraint(stiffness, self._phi[: len(stiffness)], c.threshold)

    def _update_temperature(self, buffer: RolloutBuffer, valid: Tensor) -> dict[str, Tensor]:
        """Step the temperature, if entropies are part of the reward, and return what to log."""
        if self.entropy_bonus is None or buffer.entropy is None:
            return {}
        entropy = self.ranks.mean(buffer.entropy.detach().mean())
        metrics = {"entropy": entropy, "temperature": self.entropy_bonus.alpha}
        self.entropy_bonus.update(entropy, valid)
        return metrics

    def _advantages(self, buffer: RolloutBuffer, targets: Tensor) -> Tensor | None:
        """Return [T, N] weighted advantages, if gradients are mixed."""
        if self.config.update.gradient != "mixed" or self.critic is None:
            return None
        rollout = buffer.rollout
        with torch.no_grad():
            value = (self.target or self.critic)(rollout.critic_obs)
        if self.entropy_bonus is not None and buffer.entropy is not None:
            # The gradient of a step's own entropy is taken in full already, through the policy.
            own = self.entropy_bonus(buffer.entropy.detach())
            targets = targets - (own - self.ranks.mean(own.mean()))
        return weighted_advantages(targets, value, rollout.cut, self.config.gamma)

    # ------------------------------------------------------------------------------------------ lines 16-19: critic

    def _fit_critic(self, buffer: RolloutBuffer, update: ActorUpdate) -> dict[str, Tensor]:
        """Fit the critic to its targets; if its loss is not finite, undo the fit."""
        if self.fit is None or self.critic is None or self.config.critic is None:
            return {}
        loss, epochs = self.fit(update.critic_obs, update.targets, update.valid)
        valid = update.valid & torch.isfinite(loss)
        fitted = self.learned.select("critic.", "critic_optimizer.")
        for tensor in fitted.values():
            tensor.copy_(self.ranks.from_rank_zero(tensor))
        self.learned.restore_unless(valid, fitted)
        if self.target is not None:
            share = valid.to(self.critic.theta.dtype) * (1.0 - (self.config.critic.target_alpha or 0.0))
            for target, parameter in zip(self.target.parameters(), self.critic.parameters(), strict=True):
                target.lerp_(parameter.detach(), share)
        value = self.ranks.mean(buffer.next_value.detach().mean())
        return {"critic_loss": loss, "critic_epochs": epochs, "value": value}

    # ------------------------------------------------------------------------------------------------- host side

    def _fetch(self, update: ActorUpdate, fit: Mapping[str, Tensor]) -> _HostMetrics:
        """Copy all numbers to the host, the same on all ranks. The host waits here until the device has finished."""
        vectors = {"stiffness of each step": update.stiffness, "adjoint norm of each step": update.adjoint_norms}
        flags = {"valid": update.valid, "finite": self.learned.is_finite()}
        scalars = {**update.metrics, **fit}
        tensors = {**flags, **scalars, **{name: x for name, x in vectors.items() if x is not None}}
        host = fetch(tensors, self.ranks.from_rank_zero)
        values = {name: float(host[name]) for name in scalars}
        if self.fit is not None:
            self.fit.rewind(round(values["critic_epochs"]))
        stiffness, adjoint_norms = (host.get(name) for name in vectors)
        signals = Signals(stiffness=stiffness, adjoint_norms=adjoint_norms, esnr=values["esnr"])
        return _HostMetrics(bool(host["valid"]), bool(host["finite"]), values, signals)

    def _handle_nonfinite(self, env: Env, buffer: RolloutBuffer, metrics: _HostMetrics) -> NonFiniteReport | None:
        """Undo what a failed iteration changed, reset the worlds that caused it, and return the cause."""
        if not metrics.valid:
            check_learned(self._state())
            report = self._diagnose(env, buffer, self.actor_step.explain(buffer.rollout.obs))
        elif not metrics.finite:
            message = f"{first_non_finite(self.learned.tensors)} would not be finite; {UNDONE}"
            self.learned.restore()
            check_learned(self._state())
            report = self._diagnose(env, buffer, message)
        elif not math.isfinite(metrics.values.get("critic_loss", 0.0)):
            return self._diagnose(env, buffer, "the critic's loss is not finite; its fit was undone")
        else:
            return None
        env.reset_worlds(self.ranks.local_slice(report.worlds))
        return report

    def _diagnose(self, env: Env, buffer: RolloutBuffer, *message: str) -> NonFiniteReport:
        return diagnose_rollout(
            buffer.rollout,
            buffer.next_value,
            *message,
            reward_terms=env.spec.reward_terms,
            gather=lambda x: self.ranks.gather(x, dim=1),
            entropy=buffer.entropy,
            temperature=0.0 if self.entropy_bonus is None else self.entropy_bonus.alpha.item(),
        )

    def _result(
        self, rollout: Rollout, metrics: _HostMetrics, timer: PhaseTimer, failure: NonFiniteReport | None
    ) -> IterationResult:
        env_steps = rollout.reward.numel() * self.ranks.size
        values = {}
        if metrics.valid and metrics.finite:
            clipped = min(metrics.values["actor_grad_norm"], self.config.actor.max_grad_norm)
            values = {**metrics.values, "actor_grad_norm_clipped": clipped}
        if failure is None and metrics.signals.adjoint_norms is not None:
            values["growth"] = overall_growth(metrics.signals.adjoint_norms)
        values["horizon"] = float(len(rollout.steps))
        return IterationResult(env_steps, values, rollout.steps, timer.seconds, failure)

    def _skip(self, interruption: RolloutInterrupted, env: Env) -> IterationResult:
        """Skip an iteration whose rollout ended early. Several ranks cannot: the others wait for this one."""
        result = skip_iteration(interruption, env, self.policy_state, {"horizon": float(self.horizon.steps)})
        if self.ranks.size > 1 and result.failure is not None:
            raise NonFiniteError(result.failure.message) from interruption
        return result

    def _set_learning_rates(self, progress: float) -> None:
        set_learning_rate([self.actor_optimizer], linear_schedule(self.config.actor.learning_rate, progress))
        if self.config.critic is not None:
            set_learning_rate([self.critic_optimizer], linear_schedule(self.config.critic.learning_rate, progress))

    def _dual_step_scale(self, progress: float) -> float:
        """Return the decayed α_φ as a fraction of its initial value."""
        initial = self.config.horizon.learning_rate
        return linear_schedule(initial, progress) / initial if initial > 0.0 else 0.0

    def _load_multipliers(self) -> None:
        """Copy φ to where the objective reads it."""
        if (phi := self.horizon.multipliers()) is not None:
            self._phi[: len(phi)].copy_(phi)

    # ------------------------------------------------------------------------------------------------ checkpoints

    def _sections(self) -> dict[str, Mapping[str, Tensor]]:
        sections: dict[str, Mapping[str, Tensor]] = {
            "actor": self.actor.state_dict(),
            "normalizer": self.normalizer.state_dict(),
            "actor_optimizer": optimizer_tensors(self.actor_optimizer),
        }
        if self.critic is not None:
            sections |= {
                "critic": self.critic.state_dict(),
                "critic_optimizer": optimizer_tensors(self.critic_optimizer),
            }
        if self.entropy_bonus is not None:
            sections |= {"temperature": self.entropy_bonus.state_dict()}
        if self.critic_normalizer is not None:
            sections |= {"critic_normalizer": self.critic_normalizer.state_dict()}
        if self.target is not None:
            sections |= {"target": self.target.state_dict()}
        return sections

    def _state(self) -> dict[str, Tensor]:
        """Return the learned tensors that must be finite; scores that the horizon rule has not measured yet are NaN."""
        horizon = {f"horizon.{name}": value for name, value in self.horizon.state_dict().items() if name != "score"}
        return {**self.learned.tensors, **horizon}

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything learned, and the state of the generator."""
        horizon = flatten({"horizon": self.horizon.state_dict()})
        return {**self.learned.copies(), **horizon, "generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume exactly from a saved state; raise and change nothing if it does not fit or is not finite."""
        check_state(self.state_dict(), state)
        check_policy({name: state[name] for name in self.policy_state})
        self.horizon.load_state_dict(section(state, "horizon"))
        restore_generator(self.generator, state["generator"])
        self.learned.load(state)
