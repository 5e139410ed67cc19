"""Custom networks of policy and critic: python examples/custom_network.py [iterations]."""

import sys

import torch
from torch import Tensor, nn

import ahac


class ResidualPolicy(nn.Module):
    """Adds a small network to a linear controller."""

    def __init__(self, obs_size: int, num_actions: int) -> None:
        super().__init__()
        self.linear = nn.Linear(obs_size, num_actions)
        self.network = nn.Sequential(nn.Linear(obs_size, 64), nn.SiLU(), nn.Linear(64, num_actions))

    def forward(self, obs: Tensor) -> Tensor:
        """Return the mean actions [B, num_actions], before the tanh, of normalized observations [B, obs_size]."""
        return self.linear(obs) + self.network(obs)


class QuadraticCritic(nn.Module):
    """A value that is quadratic in learned features."""

    def __init__(self, obs_size: int) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(obs_size, 64), nn.SiLU(), nn.Linear(64, 16))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, obs: Tensor) -> Tensor:
        """Return the values [B]."""
        return self.bias - self.features(obs).square().sum(dim=-1)


if __name__ == "__main__":
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    settings = {"num_envs": 64, "device": "cpu", "eval_episodes": 32}
    run = ahac.train(
        "cartpole", "shac", policy=ResidualPolicy, critic=QuadraticCritic, iterations=iterations, **settings
    )
    sys.stdout.write(f"return {run.evaluate().mean:.0f} in {run.folder}\n")
