"""First-order actor-critic learning through a differentiable simulator: the loop that SHAC, AHAC and BPTT share.

One iteration: roll out, differentiate the discounted return with a value at its end, step the actor; fit the critic to
TD(λ) targets; let the horizon learn from what was measured. The algorithms differ by the parts they are built from.

Between its first kernel and the moment its numbers are fetched, an iteration looks at nothing: what went wrong is
decided on the device. So on CUDA it can be recorded and replayed (`ahac.runtime.cuda_graphs`).

Several ranks roll out a share of the worlds each, and learn the same from all of them (`ahac.core.distributed`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor, nn

from ahac.algos.algorithm import IterationResult
from ahac.algos.builders import horizon_rule, stiffness_monitor
from ahac.algos.config import ShortHorizonConfig
from ahac.algos.finite_checks import KEPT, check_learned, check_policy, finite_action, skipped
from ahac.algos.parts.critic_fit import CriticFit, GraphedCriticFit
from ahac.algos.parts.gradient_horizon import overall_growth
from ahac.algos.parts.horizon import Signals
from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.env import Env, EnvSpec
from ahac.core.errors import NonFiniteError
from ahac.core.rng import restore_generator
from ahac.nets.actor import Actor
from ahac.nets.critic import Critic
from ahac.nets.critic_training import make_critic_epoch
from ahac.nets.normalizer import Normalizer
from ahac.nets.optim import optimizer_tensors, shac_adam, step_only_if
from ahac.nets.rollout_policy import make_rollout_policy
from ahac.nets.state_dicts import LearnedState, check_state, first_non_finite, flatten, section
from ahac.rl.diagnostics import action_gradients, adjoint_norms, backward_to_steps, esnr
from ahac.rl.losses import constraint, short_horizon
from ahac.rl.nonfinite import diagnose_rollout, unusable_worlds
from ahac.rl.returns import td_lambda
from ahac.rl.rollout import Rollout, roll_out
from ahac.rl.schedule import linear_schedule, set_learning_rate
from ahac.rl.stepping import RolloutInterrupted
from ahac.rl.update import Lesson, Told, told
from ahac.runtime.cuda_graphs import EnvGraphExecutor, Executor, ExecutorSelector
from ahac.runtime.timer import PhaseTimer

__all__ = ["ShortHorizonActorCritic"]


class ShortHorizonActorCritic:
    """An actor, a critic or none, and a horizon."""

    def __init__(
        self,
        config: ShortHorizonConfig,
        spec: EnvSpec,
        seed: int,
        graphs: bool = True,
        ranks: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        """On CUDA, `graphs` lets iterations be recorded and replayed; the spec is that of this rank's worlds."""
        cpu = torch.Generator().manual_seed(seed)
        self.config = config
        self.device = spec.device
        self.horizon = horizon_rule(config)
        self.ranks = ranks
        self._probes = config.stiffness.probes if config.stiffness.signal == "dynamics" else None
        self.gauge = stiffness_monitor(config, self.horizon, self._probes)
        self.generator = torch.Generator(spec.device).manual_seed(seed)
        self.normalizer = Normalizer(spec.obs_size, config.actor.normalize_obs, spec.dtype).to(spec.device)
        actor = Actor(spec.obs_size, spec.action_size, config.actor.hidden, log_std=config.actor.init_log_std, rng=cpu)
        self.actor = actor.to(spec.device, spec.dtype)
        self._policy = make_rollout_policy(self.actor)
        self.actor_optimizer = shac_adam(self.actor, config.actor.learning_rate)
        self.critic = self.target = self.fit = None
        if (c := config.critic) is not None:
            self.critic = Critic(spec.obs_size, c.hidden, members=c.num_critics, rng=cpu).to(spec.device, spec.dtype)
            self.target = None if c.target_alpha is None else deepcopy(self.critic).requires_grad_(False)
            self.critic.theta.grad = torch.zeros_like(self.critic.theta)
            self.critic_optimizer = shac_adam(self.critic, c.learning_rate)
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
        self.learned = LearnedState(self._parts())
        """All that an iteration changes, but for horizon and chance."""
        self._policy_state = self.learned.select("actor.", "normalizer.")
        self._phi = torch.zeros(config.horizon.max, device=spec.device, dtype=spec.dtype)
        self.at_once = spec.device.type == "cuda"
        """Whether the actor is differentiated by its weights for all steps of a rollout at once."""
        self._cast = ExecutorSelector(self.generator, graphs)
        self._recorded_fit: GraphedCriticFit | None = None
        self._stream = torch.cuda.Stream(spec.device) if graphs and spec.device.type == "cuda" else None

    def act(self, obs: Tensor) -> Tensor:
        """The policy's best action for raw observations."""
        with torch.no_grad():
            return finite_action(self.actor(self.normalizer.frozen()(obs)), obs, self._policy_state)

    def iterate(self, env: Env, progress: float) -> IterationResult:
        """Roll out, step the actor, fit the critic, learn the horizon."""
        if self._stream is None:
            return self._iterate(env, progress)
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._stream):
            return self._iterate(env, progress)  # all of which is over when it returns

    def _iterate(self, env: Env, progress: float) -> IterationResult:
        self.learned.save()
        self._set_rates(progress)
        self._set_multipliers()
        laps = PhaseTimer(self.device)
        player = self._player(env)
        length = self.horizon.steps
        works = {
            "rollout": lambda _: self._roll_out(env, length),
            "gradient": lambda rolled: self._learn(env, *rolled),
        }
        try:
            lesson: Lesson = player.run(length, works, laps.lap)
        except RolloutInterrupted as halt:
            return self._halted(halt, env, length)
        fitted = self._fit_critic(lesson, player)
        laps.lap("critic")
        found = told(lesson, {**fitted, "finite": self.learned.is_finite()}, self.ranks)
        if isinstance(player, EnvGraphExecutor) and self._recorded_fit is not None:
            self._recorded_fit.rewind(round(found.numbers["critic_epochs"]))
        report = self._report(env, lesson, found, progress)
        laps.lap("rest")
        return replace(report, seconds=laps.seconds)

    def _player(self, env: Env) -> Executor:
        """Who does the work; where it is recorded, the fit is as well."""
        player, fit = self._cast.executor(env), self._recorded_fit
        if self.fit is None or not isinstance(player, EnvGraphExecutor):
            return player
        if fit is None or fit.graphs is not player.graphs:
            self._recorded_fit = GraphedCriticFit(self.fit, player.graphs)
        return player

    def _roll_out(self, env: Env, length: int) -> tuple[Rollout, Tensor, Tensor, Tensor]:
        """Of this length, the noise in its actions, what the critic says of the states it reached, and the loss."""
        noise, view = self._noise(env.spec, length), self.normalizer.frozen()
        drawn, sample = iter(noise), self._policy.sampler(view)
        rollout = roll_out(env, lambda obs: sample(obs, next(drawn)), view, length, self.gauge)
        next_value = self._next_values(rollout)
        return rollout, noise, next_value, short_horizon(rollout, next_value, self.config.gamma)

    def _noise(self, spec: EnvSpec, length: int) -> Tensor:
        """[T, N, actions] of this rank's worlds; step by step, so that a longer rollout begins as a shorter one."""
        shape = (spec.num_envs * self.ranks.size, spec.action_size)
        draws = [
            torch.randn(shape, generator=self.generator, device=spec.device, dtype=spec.dtype) for _ in range(length)
        ]
        return torch.stack([self.ranks.local_slice(drawn) for drawn in draws])

    def _next_values(self, rollout: Rollout) -> Tensor:
        """[T, N] V(s_{t+1}), zero where the task ended the episode, or where there is no critic."""
        if self.critic is None:
            return torch.zeros_like(rollout.reward)
        network = self.target or self.critic
        return torch.where(rollout.terminated, 0.0, network(rollout.final_obs))

    def _learn(self, env: Env, rollout: Rollout, noise: Tensor, next_value: Tensor, loss: Tensor) -> Lesson:
        """Differentiate, step the actor, and see what else there is to learn."""
        objective = loss + self._constraint(rollout)
        by_action = self._differentiate(objective, rollout, noise)
        norm, sound = self._step_actor(objective.detach(), rollout)
        next_value = next_value.detach()
        targets = td_lambda(rollout.reward.detach(), next_value, rollout.cut, self.config.gamma, self.config.td_lambda)
        ranks = self.ranks
        self.normalizer.update(rollout.raw_obs.flatten(0, 1), sound, ranks)
        measured = rollout.stiffness
        if measured is None:  # of the last step, where nothing looks at the others
            with torch.no_grad():
                measured = env.stiffness(rollout.steps[-1], self.config.stiffness.signal, self._probes)
        measured = measured.detach()
        means = {
            "actor_loss": loss.detach(),
            "actor_grad_norm": norm,
            "esnr": esnr(by_action, ranks),
            "share_cut": rollout.stiff.float().mean(),
            "stiffness": measured.mean(),
        }
        return Lesson(
            rollout=rollout,
            next_value=next_value,
            obs=ranks.gather(rollout.obs, dim=1),
            targets=ranks.gather(targets, dim=1),
            sound=sound,
            numbers={**ranks.means(means), "stiffness_max": ranks.max(measured.max())},
            stiffness=None if rollout.stiffness is None else ranks.mean(measured.mean(dim=1)),
            growth=adjoint_norms(rollout.steps, ranks) if "growth" in self.horizon.needs else None,
        )

    def _constraint(self, rollout: Rollout) -> Tensor | float:
        """−φᵀ (C − ‖∇f‖), where the objective has it and the signal a gradient."""
        stiffness, c = rollout.stiffness, self.config.stiffness
        if not c.lagrangian or stiffness is None or not stiffness.requires_grad:
            return 0.0
        return constraint(stiffness, self._phi[: len(stiffness)], c.threshold)

    def _differentiate(self, objective: Tensor, rollout: Rollout, noise: Tensor) -> Tensor:
        """The actor's gradient is found; [T, N, actions] that of the objective by each action.

        The last link of the chain, from actions to weights, may be taken for all steps at once: on CUDA many small
        kernels at each step cost more than the actions once more. On the CPU it is the other way round.
        """
        weights = list(self.actor.parameters())
        states = "growth" in self.horizon.needs
        gradients = backward_to_steps(objective, rollout.steps, states, () if self.at_once else weights)
        by_action = action_gradients(rollout.steps)
        if self.at_once:
            gradients = torch.autograd.grad(self.actor(rollout.obs, noise), weights, by_action)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient
        return by_action

    def _step_actor(self, objective: Tensor, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """The gradient's norm, and whether all is finite and not too large; else nothing is changed."""
        self.ranks.average_gradients(self.actor.parameters())
        norm = nn.utils.clip_grad_norm_(self.actor.parameters(), self.config.actor.max_grad_norm)
        # An infinite or huge reward, observation or stiffness may have a finite gradient; it would spoil the critic,
        # the normalizer or the horizon.
        sound = torch.isfinite(objective + norm)
        sound = sound & ~(unusable_worlds(rollout.reward).any() | unusable_worlds(rollout.raw_obs).any())
        if rollout.stiffness is not None:
            sound = sound & torch.isfinite(rollout.stiffness.detach().sum())
        sound = self.ranks.all(sound)
        with step_only_if(sound, self.actor_optimizer):
            self.actor_optimizer.step()
        return norm, sound

    def _fit_critic(self, lesson: Lesson, player: Executor) -> dict[str, Tensor]:
        """Fit it to the targets, on every rank to all of them; where its loss is not finite it is as it was before."""
        if self.fit is None or self.critic is None or self.config.critic is None:
            return {}
        fit = (
            self._recorded_fit if isinstance(player, EnvGraphExecutor) and self._recorded_fit is not None else self.fit
        )
        states = [self.critic.theta.detach(), *optimizer_tensors(self.critic_optimizer).values()]
        before = [x.clone() for x in states]
        loss, passes = fit(lesson.obs.flatten(0, 1), lesson.targets.flatten(), lesson.sound)
        sound = lesson.sound & torch.isfinite(loss)
        for new, old in zip(states, before, strict=True):
            new.copy_(torch.where(sound, self.ranks.from_rank_zero(new), old))
        if self.target is not None:
            share = sound.to(self.critic.theta.dtype) * (1.0 - (self.config.critic.target_alpha or 0.0))
            for old, new in zip(self.target.parameters(), self.critic.parameters(), strict=True):
                old.lerp_(new.detach(), share)
        return {"critic_loss": loss, "critic_epochs": passes, "value": self.ranks.mean(lesson.next_value.mean())}

    def _report(self, env: Env, lesson: Lesson, found: Told, progress: float) -> IterationResult:
        """What is logged; the horizon learns, and worlds that spoilt a rollout begin anew."""
        rollout = lesson.rollout
        values = found.numbers
        names = env.spec.reward_terms
        taken = rollout.reward.numel() * self.ranks.size
        horizon = {"horizon": float(len(rollout.steps))}
        finite = values.pop("finite") > 0.0
        if not found.sound:
            check_learned(self._state())
            trouble = diagnose_rollout(rollout, lesson.next_value, ranks=self.ranks, reward_terms=names)
            env.reset_worlds(self.ranks.local_slice(trouble.worlds))
            return IterationResult(taken, horizon, rollout.steps, failure=trouble)
        if not finite:
            what = f"{first_non_finite(self.learned.tensors)} would not be finite; {KEPT}"
            self.learned.restore()
            check_learned(self._state())
            trouble = diagnose_rollout(rollout, lesson.next_value, what, self.ranks, names)
            env.reset_worlds(self.ranks.local_slice(trouble.worlds))
            return IterationResult(taken, horizon, rollout.steps, failure=trouble)
        values["actor_grad_norm_clipped"] = min(values["actor_grad_norm"], self.config.actor.max_grad_norm)
        if not math.isfinite(values.get("critic_loss", 0.0)):
            what = "the critic's loss is not finite; it is as it was before this fit"
            trouble = diagnose_rollout(rollout, lesson.next_value, what, self.ranks, names)
            return IterationResult(taken, values | horizon, rollout.steps, failure=trouble)
        if found.growth is not None:
            values["growth"] = overall_growth(found.growth)
        rate = self.config.horizon.learning_rate
        signals = Signals(stiffness=found.stiffness, growth=found.growth, esnr=values["esnr"])
        self.horizon.update(signals, linear_schedule(rate, progress) / rate if rate > 0.0 else 0.0)
        return IterationResult(taken, values | horizon, rollout.steps)

    def _set_rates(self, progress: float) -> None:
        set_learning_rate([self.actor_optimizer], linear_schedule(self.config.actor.learning_rate, progress))
        if self.config.critic is not None:
            set_learning_rate([self.critic_optimizer], linear_schedule(self.config.critic.learning_rate, progress))

    def _set_multipliers(self) -> None:
        """φ where the loss finds it."""
        if (phi := self.horizon.multipliers()) is not None:
            self._phi[: len(phi)].copy_(phi)

    def _halted(self, halt: RolloutInterrupted, env: Env, length: int) -> IterationResult:
        """Skip an iteration whose rollout ended early; among several ranks the others would wait for this one."""
        report = skipped(halt, env, self._policy_state)
        if self.ranks.size > 1 and report.failure is not None:
            raise NonFiniteError(report.failure.message) from halt
        return replace(report, metrics={"horizon": float(length)})

    def _parts(self) -> dict[str, Mapping[str, Tensor]]:
        parts: dict[str, Mapping[str, Tensor]] = {
            "actor": self.actor.state_dict(),
            "normalizer": self.normalizer.state_dict(),
            "actor_optimizer": optimizer_tensors(self.actor_optimizer),
        }
        if self.critic is not None:
            parts |= {"critic": self.critic.state_dict(), "critic_optimizer": optimizer_tensors(self.critic_optimizer)}
        if self.target is not None:
            parts |= {"target": self.target.state_dict()}
        return parts

    def _state(self) -> dict[str, Tensor]:
        """What was learned and must be finite; of the horizon's scores, those not known yet are not."""
        horizon = {f"horizon.{name}": value for name, value in self.horizon.state_dict().items() if name != "score"}
        return {**self.learned.tensors, **horizon}

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that was learned, and all chance."""
        horizon = flatten({"horizon": self.horizon.state_dict()})
        return {**self.learned.copies(), **horizon, "generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on exactly from a saved state; one that does not fit, or has no finite policy, changes nothing."""
        check_state(self.state_dict(), state)
        check_policy({name: state[name] for name in self._policy_state})
        self.horizon.load_state_dict(section(state, "horizon"))
        restore_generator(self.generator, state["generator"])
        self.learned.load(state)
        self._cast.invalidate()
