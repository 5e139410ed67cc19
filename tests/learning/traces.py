"""Traces: a few numbers that characterize twenty iterations of each algorithm.

On a double integrator whose episodes also end by a bound and by time in the middle of rollouts, so that every branch of
an update is taken. Recorded in float64; float32 goes the same way for so short a time, since torch draws fewer than 16
normal numbers alike for both. To record them again, from the repository's root:

    PYTHONPATH=tests .venv/bin/python -m learning.traces
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from ahac.algos.config import ShortHorizonConfig
from ahac.algos.short_horizon import ShortHorizonActorCritic
from learning.double_integrator import DoubleIntegrator
from learning.toys import Toy

FILE = Path(__file__).with_name("traces.json")
MARKS = (1, 5, 10, 20)
"""Iterations after which numbers are stored."""
REPORTED = ("actor_loss", "critic_loss", "critic_epochs", "horizon", "share_cut", "stiffness")
"""Metrics of an iteration to store, if it has them."""
TOY = Toy(task="double_integrator", horizon=8, hidden=(8, 8))

CASES = {
    "ahac": ("ahac", "default"), "ahac, paper": ("ahac", "paper"), "ahac, released": ("ahac", "released"),
    "ahac1": ("ahac1", "default"), "shac": ("shac", "default"), "bptt": ("bptt", "default"),
}  # fmt: skip
"""Algorithm and preset by name."""
WORLDS = 8

Trace = dict[str, dict[str, float]]
"""Numbers by name, by iteration."""


def settings(case: str) -> ShortHorizonConfig:
    """Return the settings of a case; within these iterations horizons change, and cuts and clipping occur."""
    made = TOY.algorithm(*CASES[case])
    critic = made.critic
    if critic is not None and critic.max_grad_norm is not None:
        critic = replace(critic, max_grad_norm=20.0)
    horizon = replace(made.horizon, learning_rate=1e-2, min=4, max=16)
    return replace(made, critic=critic, horizon=horizon, stiffness=replace(made.stiffness, min_steps=2))


def trace(config: ShortHorizonConfig, dtype: torch.dtype, last: int = MARKS[-1]) -> Trace:
    """Train until the last iteration, and return the trace."""
    env = DoubleIntegrator(WORLDS, seed=3, episode_steps=11, bound=1.2, dtype=dtype)
    algorithm = ShortHorizonActorCritic(config, env.spec, seed=4)
    first, actual = _weights(algorithm), {}
    for i in range(1, last + 1):
        report = algorithm.iterate(env, (i - 1) / MARKS[-1])
        if i in MARKS:
            # The change of the weights, not the weights: initial weights would hide an update.
            moved = {f"{name} moved": _norm(x - first[name]) for name, x in _weights(algorithm).items()}
            metrics = {name: report.metrics[name] for name in REPORTED if name in report.metrics}
            actual[str(i)] = {**moved, "variance": _norm(algorithm.normalizer.variance), **metrics}
    return actual


def record() -> None:
    """Write the traces of the current code, one line per mark."""
    lines = []
    for case in CASES:
        for mark, numbers in trace(settings(case), torch.float64).items():
            lines.append(json.dumps([case, mark, numbers]))
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def recorded(case: str) -> Trace:
    """Return a recorded trace."""
    return {mark: numbers for name, mark, numbers in json.loads(FILE.read_text(encoding="utf-8")) if name == case}


def _weights(algorithm: ShortHorizonActorCritic) -> dict[str, Tensor]:
    networks = {"actor": algorithm.actor, "critic": algorithm.critic, "target": algorithm.target}
    return {name: _vector(network) for name, network in networks.items() if network is not None}


def _vector(network: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(network.parameters()).detach().clone()


def _norm(x: Tensor) -> float:
    return float(torch.linalg.vector_norm(x.double()))


if __name__ == "__main__":
    torch.set_num_threads(1)
    record()
