"""The double integrator as an environment: a mass on a rail, pushed toward its middle, in plain torch on the CPU.

    x' = x + τ v,        v' = v + τ F a,        r(s, a) = −x² − 0.1 v² − 2 a²

A linear motion with a quadratic cost, so that the best controller is known: see `riccati.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.core.env import EnvSpec, Step

TAU = 0.1
"""Seconds per step."""
FORCE = 4.0
"""Acceleration by an action of 1 [m/s²]."""
COSTS = (1.0, 0.1, 2.0)
"""Cost coefficients of x² [1/m²], v² [s²/m²] and a²."""
STARTS = (1.0, 0.5)
"""Episodes start uniformly within ± these distances of the middle [m] and of rest [m/s]."""
STIFF = 1000.0
"""Artificial stiffness per meter from the middle, so that AHAC-1 has something to truncate."""


@dataclass(frozen=True)
class Mass:
    """States of N masses, a `ahac.core.env.PhysicsState`."""

    q: Tensor
    """[N, 1] x [m]."""
    v: Tensor
    """[N, 1] its rate [m/s]."""
    act: None = None


class DoubleIntegrator:
    """N masses; an episode times out, or terminates beyond a bound if there is one."""

    def __init__(
        self,
        num_envs: int,
        *,
        seed: int,
        episode_steps: int = 30,
        bound: float = float("inf"),
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.spec = EnvSpec(
            name="double_integrator",
            num_envs=num_envs,
            obs_size=2,
            critic_obs_size=2,
            action_size=1,
            episode_steps=episode_steps,
            dt=TAU,
            device=torch.device("cpu"),
            dtype=dtype,
        )
        self.bound = bound
        self.generator = torch.Generator()
        self.costs = torch.tensor(COSTS, dtype=dtype)
        self.reset(seed)

    def reset(self, seed: int | None = None) -> Tensor:
        if seed is not None:
            self.generator.manual_seed(seed)
        self._set(self._begin())
        self.length, self.total = torch.zeros(2, self.spec.num_envs, dtype=self.spec.dtype)
        return self.obs

    def reset_worlds(self, worlds: Tensor) -> None:
        self._set(_choose(worlds, self._begin(), self.state))
        self.length, self.total = (torch.where(worlds, 0.0, x) for x in (self.length, self.total))

    def step(self, action: Tensor) -> Step:
        start = self.state
        x = self.state.q
        v = self.state.v
        push = action.clamp(-1.0, 1.0)
        terms = -self.costs * torch.cat([x, v, push], dim=-1).square()
        reward = terms.sum(dim=-1)
        end = Mass(torch.add(x, v, alpha=TAU), torch.add(v, push, alpha=TAU * FORCE))
        length, total = self.length + 1.0, self.total + reward.detach()
        terminated = end.q.detach().squeeze(-1).abs() > self.bound
        truncated = (length >= self.spec.episode_steps) & ~terminated
        self._set(end)
        final, final_critic = self.obs, self.critic_obs
        self.length = length
        self.total = total
        if bool((terminated | truncated).any()):
            self.reset_worlds(terminated | truncated)
        return Step(
            obs=self.obs,
            critic_obs=self.critic_obs,
            final_obs=final,
            final_critic_obs=final_critic,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            diverged=torch.zeros_like(terminated),
            reward_terms=terms.detach(),
            episode_return=total,
            episode_length=length,
            action=action,
            state=start,
            next_state=end,
        )

    def detach(self, worlds: Tensor | None = None) -> None:
        cut = Mass(self.state.q.detach(), self.state.v.detach())
        self._set(cut if worlds is None else _choose(worlds, cut, self.state))

    def stiffness(self, step: Step, signal: str = "dynamics", probes: int | None = None) -> Tensor:
        return STIFF * step.next_state.q.squeeze(-1).abs()

    def state_dict(self) -> dict[str, Tensor]:
        mass = {"q": self.state.q.detach().clone(), "v": self.state.v.detach().clone()}
        clock = {"length": self.length.clone(), "total": self.total.clone()}
        return {**mass, **clock, "generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self._set(Mass(state["q"].clone(), state["v"].clone()))
        self.length = state["length"].clone()
        self.total = state["total"].clone()
        self.generator.set_state(state["generator"])

    def _set(self, state: Mass) -> None:
        self.state = state
        self.obs = self.critic_obs = torch.cat([state.q, state.v], dim=-1)

    def _begin(self) -> Mass:
        drawn = torch.rand(self.spec.num_envs, 2, generator=self.generator, dtype=torch.float64) * 2.0 - 1.0
        x, v = (drawn * torch.tensor(STARTS, dtype=torch.float64)).to(self.spec.dtype).split(1, dim=-1)
        return Mass(x, v)


def _choose(worlds: Tensor, there: Mass, elsewhere: Mass) -> Mass:
    over = worlds[:, None]
    return Mass(torch.where(over, there.q, elsewhere.q), torch.where(over, there.v, elsewhere.v))
