"""A custom algorithm: the cross-entropy method on cartpole. python examples/custom_algorithm.py [iterations]

Every world tries other weights of a linear policy for one episode. The next weights are drawn with the mean and the
standard deviation of the best ones. It finds a policy that holds the pole up longer than none does (return -1100
instead of -1700); holding it for good needs more than a linear policy.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import ahac
from ahac.algos.algorithm import IterationResult
from ahac.core.distributed import ProcessGroup
from ahac.core.env import Env, EnvSpec


@dataclass(frozen=True, kw_only=True)
class CEMConfig:
    """Cross-entropy method: random search around the best policies."""

    elites: float = 0.1
    """Share of the worlds whose weights are kept."""
    init_std: float = 3.0
    """Initial standard deviation of the weights."""
    min_std: float = 0.1
    """Smallest standard deviation of the weights."""


class CEM:
    """Searches the weights of a linear policy, tanh(W obs + b)."""

    def __init__(self, config: CEMConfig, spec: EnvSpec, seed: int, ranks: ProcessGroup) -> None:
        self.config = config
        self.generator = torch.Generator(spec.device).manual_seed(seed)
        self.mean = torch.zeros(spec.action_size, spec.obs_size + 1, device=spec.device, dtype=spec.dtype)
        self.std = torch.full_like(self.mean, config.init_std)
        self.policy_state = {"mean": self.mean}

    def iterate(self, env: Env, progress: float) -> IterationResult:
        """Run one episode in every world, and move the search to the best ones."""
        worlds, steps = env.spec.num_envs, []
        noise = torch.randn(worlds, *self.mean.shape, generator=self.generator, device=self.mean.device)
        weights = self.mean + self.std * noise.to(self.mean.dtype)
        obs, total, alive = env.reset(), torch.zeros_like(weights[:, 0, 0]), torch.ones_like(weights[:, 0, 0])
        with torch.no_grad():
            for _ in range(env.spec.episode_steps):
                step = env.step(linear_policy(weights, obs))
                total += alive * step.reward
                alive *= ~step.done
                obs = step.obs
                steps.append(step)
        best = total.topk(max(2, round(self.config.elites * worlds)))
        self.mean.copy_(weights[best.indices].mean(dim=0))
        self.std.copy_(weights[best.indices].std(dim=0).clamp(min=self.config.min_std))
        metrics = {"rollout/elite_return": float(best.values.mean()), "search_std": float(self.std.mean())}
        return IterationResult(worlds * len(steps), metrics, steps)

    def act(self, obs: Tensor) -> Tensor:
        """Return the actions of the mean weights."""
        return linear_policy(self.mean.expand(len(obs), -1, -1), obs)

    def policy_layers(self) -> nn.Sequential:
        """Return the same as layers, to export it."""
        layer = nn.Linear(self.mean.shape[1] - 1, len(self.mean), device=self.mean.device, dtype=self.mean.dtype)
        layer.load_state_dict({"weight": self.mean[:, :-1], "bias": self.mean[:, -1]})
        return nn.Sequential(layer, nn.Tanh())

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that resuming needs."""
        return {"mean": self.mean.clone(), "std": self.std.clone(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume exactly from a saved state."""
        self.mean.copy_(state["mean"])
        self.std.copy_(state["std"])
        self.generator.set_state(state["generator"].cpu())


def linear_policy(weights: Tensor, obs: Tensor) -> Tensor:
    """Return the actions of one policy per world: [N, actions, obs + 1] and [N, obs] to [N, actions]."""
    return torch.tanh((weights[..., :-1] @ obs[..., None])[..., 0] + weights[..., -1])


if __name__ == "__main__":
    ahac.register_algorithm("cem", CEM, CEMConfig)
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    settings = {"num_envs": 256, "variant": "released", "device": "cpu", "eval_episodes": 32}
    run = ahac.train("cartpole", "cem", iterations=iterations, **settings)
    sys.stdout.write(f"return {run.evaluate().mean:.0f} in {run.folder}\n")
