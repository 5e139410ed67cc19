"""First- and zeroth-order samples of the gradient of an H-step return by the policy's parameters, one per world.

Every world has a separate copy of the parameters, so one backward pass gives the gradients of all worlds, [N, d]. All
worlds start in the same state (the paper's assumption on ρ) and differ in their action noise. The return is the
undiscounted sum of rewards; a world whose episode ended earns no further reward.
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
from ahac.nets.actor import SquashedGaussian, StateStdActor
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

NOT_COPIED = {"noise", "step_noise", "generator", "probe_generator"}
"""Entries of an environment's state that do not describe where its worlds are."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples at one horizon."""

    horizon: int
    first: Tensor
    """[N, d] first-order samples ∇_θ R."""
    zeroth: Tensor
    """[N, d] zeroth-order samples (R − b) ∇_θ log π."""


@dataclass(frozen=True, eq=False)
class SampledRollout:
    """A rollout with action noise, with its autograd graph."""

    steps: list[Step]
    returns: Tensor
    """[T, N] returns of the first 1, 2, ... steps; differentiable."""
    scores: Mapping[int, Tensor]
    """[N, d] per horizon: ∇_θ of the log-probability of the actions up to there."""
    parameters: Parameters
    """[N, ...] each, one copy per world."""


def reset_to_one_start(target: StudyTarget, after: int, seed: int) -> Mapping[str, Tensor]:
    """Put all worlds in the state that world 0 reaches after `after` noise-free steps; return the env's state dict."""
    env = target.env
    env.reset(seed)
    with torch.no_grad():
        for _ in range(after):
            env.step(target.act(env.obs))
    state = env.state_dict()
    for name in state.keys() - NOT_COPIED:
        state[name] = state[name][:1].expand_as(state[name]).clone()
    env.load_state_dict(state)
    return env.state_dict()


def noise_free_returns(target: StudyTarget, start: Mapping[str, Tensor], horizon: int) -> Tensor:
    """Return the returns [T] of the noise-free policy, the baseline."""
    env = target.env
    env.load_state_dict(start)
    rewards = []
    alive = torch.ones(env.spec.num_envs, device=env.spec.device, dtype=torch.bool)
    with torch.no_grad():
        for _ in range(horizon):
            step = env.step(target.act(env.obs))
            rewards.append(torch.where(alive, step.reward, 0.0))
            alive = alive & ~step.done
    return torch.stack(rewards).cumsum(dim=0)[:, 0]


def sample_rollout(
    target: StudyTarget, start: Mapping[str, Tensor], horizons: Sequence[int], seed: int
) -> SampledRollout:
    """Roll out the policy up to the longest horizon, with independent noise in every world."""
    env, actor = target.env, target.actor
    rng = torch.Generator(env.spec.device).manual_seed(seed)
    shape = (env.spec.num_envs, env.spec.action_size)
    parameters = {
        name: p.detach().expand(env.spec.num_envs, *p.shape).clone().requires_grad_()
        for name, p in actor.named_parameters()
    }
    act = vmap(lambda own, obs, noise: functional_call(actor, own, (obs, noise)))
    log_density = vmap(lambda own, obs, noise: _log_density(actor, own, obs, noise))
    env.load_state_dict(start)
    alive = torch.ones(shape[0], device=env.spec.device, dtype=torch.bool)
    steps = []
    rewards = []
    scores = dict[int, Tensor]()
    total = torch.zeros((), device=env.spec.device)
    for horizon in range(1, max(horizons) + 1):
        obs = target.normalize(env.obs)
        noise = torch.randn(shape, generator=rng, device=env.spec.device, dtype=env.spec.dtype)
        density = torch.where(alive, log_density(parameters, obs.detach(), noise), 0.0)
        total = total + _flat(torch.autograd.grad(density.sum(), list(parameters.values())))
        if horizon in horizons:
            scores[horizon] = total
        step = env.step(act(parameters, obs, noise))
        retain_step_gradients(step, states=True)
        rewards.append(torch.where(alive, step.reward, 0.0))
        alive = alive & ~step.done
        steps.append(step)
    return SampledRollout(steps, torch.stack(rewards).cumsum(dim=0), scores, parameters)


def sample_gradients(rollout: SampledRollout, baseline: Tensor, horizons: Sequence[int]) -> Iterator[Samples]:
    """Yield samples of both orders per horizon; the last one leaves its gradients at actions and states."""
    leaves = list(rollout.parameters.values())
    for horizon in horizons:
        returns = rollout.returns[horizon - 1]
        scores = rollout.scores[horizon]
        if horizon == horizons[-1]:
            returns.sum().backward()
            first = _flat([torch.zeros_like(x) if x.grad is None else x.grad for x in leaves])
        else:
            first = _flat(torch.autograd.grad(returns.sum(), leaves, retain_graph=True, materialize_grads=True))
        zeroth = zeroth_order(returns.detach(), baseline[horizon - 1], scores)
        yield Samples(horizon, first.double(), zeroth.double())


def _log_density(actor: SquashedGaussian, own: Parameters, obs: Tensor, noise: Tensor) -> Tensor:
    """Return log π of one world's action, up to terms that do not depend on the parameters.

    The action a = tanh(u) is held fixed; its density is that of u = μ + σ ε divided by |da/du|, which is then constant.
    """
    layers = {name.removeprefix("net."): p for name, p in own.items() if name.startswith("net.")}
    outputs = functional_call(actor.net, layers, (obs,))
    mean, log_std = actor.split(outputs) if isinstance(actor, StateStdActor) else (outputs, own["log_std"])
    action = (mean + log_std.exp() * noise).detach()  # before tanh
    return -(0.5 * ((action - mean) / log_std.exp()).square() + log_std).sum()


def _flat(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors [N, ...] into [N, d]."""
    return torch.cat([part.flatten(1) for part in parts], dim=1)
