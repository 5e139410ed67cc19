"""Samples of the gradient of an H-step return by a policy's parameters, one per world, of first and of zeroth order.

Every world has a copy of the parameters of its own, so that one backward pass gives all worlds' gradients, [N, d]. All
worlds begin in the same state (the paper's assumption on ρ) and differ by the noise of their actions. The return is the
plain sum of rewards; a world that is lost, or whose time is up, earns nothing from there on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from ahac.core.env import Step
from ahac.gradients.estimators import zeroth_order
from ahac.gradients.policies import StudyTarget
from ahac.nets.actor import Actor
from ahac.rl.diagnostics import retain_step_gradients

__all__ = [
    "SampledRollout",
    "Samples",
    "noise_free_returns",
    "reset_to_one_start",
    "sample_gradients",
    "sample_rollout",
]

Parameters = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Samples:
    """At one horizon."""

    horizon: int
    first: Tensor
    """[N, d] ∇_θ R."""
    zeroth: Tensor
    """[N, d] (R − b) ∇_θ log π."""


@dataclass(frozen=True, eq=False)
class SampledRollout:
    """A rollout with noise, whose graph is kept, and what is needed to differentiate it."""

    steps: list[Step]
    returns: Tensor
    """[T, N] of the first 1, 2, ... steps; carries gradients."""
    scores: Mapping[int, Tensor]
    """[N, d] by horizon: ∇_θ of the log-probability of the actions up to there."""
    parameters: Parameters
    """[N, ...] each, the worlds' own copies."""


def reset_to_one_start(subject: StudyTarget, after: int, seed: int) -> Mapping[str, Tensor]:
    """The state of the environment when all worlds are where the first one is `after` steps into an episode."""
    env = subject.env
    env.reset(seed)
    with torch.no_grad():
        for _ in range(after):
            env.step(subject.act(env.obs))
    state = env.state_dict()
    for name in ("q", "v", "obs", "clock"):
        state[name] = state[name][:1].expand_as(state[name]).clone()
    env.load_state_dict(state)
    return env.state_dict()


def noise_free_returns(subject: StudyTarget, start: Mapping[str, Tensor], horizon: int) -> Tensor:
    """[T] of the policy without noise, the baseline."""
    env = subject.env
    env.load_state_dict(start)
    earned = []
    on = torch.ones(env.spec.num_envs, device=env.spec.device, dtype=torch.bool)
    with torch.no_grad():
        for _ in range(horizon):
            step = env.step(subject.act(env.obs))
            earned.append(torch.where(on, step.reward, 0.0))
            on = on & ~step.done
    return torch.stack(earned).cumsum(dim=0)[:, 0]


def sample_rollout(
    subject: StudyTarget, start: Mapping[str, Tensor], horizons: Sequence[int], seed: int
) -> SampledRollout:
    """Roll the policy out up to the longest of these horizons, with noise of its own in every world."""
    env, actor = subject.env, subject.actor
    rng = torch.Generator(env.spec.device).manual_seed(seed)
    shape = (env.spec.num_envs, env.spec.action_size)
    parameters = {
        name: p.detach().expand(env.spec.num_envs, *p.shape).clone().requires_grad_()
        for name, p in actor.named_parameters()
    }
    act = vmap(lambda own, obs, noise: functional_call(actor, own, (obs, noise)))
    likely = vmap(lambda own, obs, noise: _log_density(actor, own, obs, noise))
    env.load_state_dict(start)
    on = torch.ones(shape[0], device=env.spec.device, dtype=torch.bool)
    steps = []
    earned = []
    scores = dict[int, Tensor]()
    total = torch.zeros((), device=env.spec.device)
    for horizon in range(1, max(horizons) + 1):
        seen = subject.normalize(env.obs)
        noise = torch.randn(shape, generator=rng, device=env.spec.device, dtype=env.spec.dtype)
        density = torch.where(on, likely(parameters, seen.detach(), noise), 0.0)
        total = total + _flat(torch.autograd.grad(density.sum(), list(parameters.values())))
        if horizon in horizons:
            scores[horizon] = total
        step = env.step(act(parameters, seen, noise))
        retain_step_gradients(step, states=True)
        earned.append(torch.where(on, step.reward, 0.0))
        on = on & ~step.done
        steps.append(step)
    return SampledRollout(steps, torch.stack(earned).cumsum(dim=0), scores, parameters)


def sample_gradients(trial: SampledRollout, baseline: Tensor, horizons: Sequence[int]) -> Iterator[Samples]:
    """Samples of both kinds, horizon by horizon; the last one leaves its gradients at actions and states behind."""
    leaves = list(trial.parameters.values())
    for horizon in horizons:
        wanted, scores = trial.returns[horizon - 1], trial.scores[horizon]
        if horizon == horizons[-1]:
            wanted.sum().backward()
            first = _flat([torch.zeros_like(x) if x.grad is None else x.grad for x in leaves])
        else:
            first = _flat(torch.autograd.grad(wanted.sum(), leaves, retain_graph=True, materialize_grads=True))
        zeroth = zeroth_order(wanted.detach(), baseline[horizon - 1], scores)
        yield Samples(horizon, first.double(), zeroth.double())


def _log_density(actor: Actor, own: Parameters, obs: Tensor, noise: Tensor) -> Tensor:
    """log π of one world's action, up to what does not depend on the parameters.

    The action a = tanh(u) is held fixed; the density of a is that of u = μ + σ ε over |da/du|, which is fixed with it.
    """
    layers = {name.removeprefix("net."): p for name, p in own.items() if name.startswith("net.")}
    mean, log_std = functional_call(actor.net, layers, (obs,)), own["log_std"]
    chosen = (mean + log_std.exp() * noise).detach()
    return -(0.5 * ((chosen - mean) / log_std.exp()).square() + log_std).sum()


def _flat(parts: Sequence[Tensor]) -> Tensor:
    """[N, d] of [N, ...] each."""
    return torch.cat([part.flatten(1) for part in parts], dim=1)
