"""An environment whose critics see more than the policy, in plain torch; `remembering.py` has a simulated one."""

from __future__ import annotations

from dataclasses import replace

import torch

from learning.double_integrator import DoubleIntegrator, Mass


class TwoGroups(DoubleIntegrator):
    """Masses of which the policy sees (x, v), and critics see (x, v, x², x v), each with an offset."""

    def __init__(
        self,
        num_envs: int,
        *,
        seed: int,
        episode_steps: int = 30,
        bound: float = float("inf"),
        dtype: torch.dtype = torch.float64,
        policy_offset: float = 0.0,
        critic_offset: float = 0.0,
    ) -> None:
        self.policy_offset = policy_offset
        self.critic_offset = critic_offset
        super().__init__(num_envs, seed=seed, episode_steps=episode_steps, bound=bound, dtype=dtype)
        self.spec = replace(self.spec, critic_obs_size=4, asymmetric=True)

    def _set(self, state: Mass) -> None:
        super()._set(state)
        x, v = state.q, state.v
        self.obs = self.obs + self.policy_offset
        self.critic_obs = torch.cat([x, v, x * x, x * v], dim=-1) + self.critic_offset
