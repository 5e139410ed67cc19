"""Speed of training: one iteration, and what its parts take."""

from __future__ import annotations

from statistics import median
from typing import Any

import torch

from ahac.algos.recipes import recipe
from ahac.algos.registry import make_algorithm
from ahac.envs import make

__all__ = ["iteration_times"]

Row = dict[str, Any]
PARTS = ("rollout", "gradient", "critic", "rest", "learning")


def iteration_times(task: str, algo: str, preset: str, worlds: int | None, device: str, iterations: int = 20) -> Row:
    """Milliseconds of an iteration, medians over some of them, torch on one thread."""
    made = recipe(task, algo, preset)
    env = make(task, num_envs=worlds or made.num_envs, device=device)
    learner = make_algorithm(made.learner, env.spec, seed=0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        reports = [learner.iterate(env, 0.0) for _ in range(iterations + 3)][3:]
    finally:
        torch.set_num_threads(threads)
    spent = {part: 1e3 * median(report.seconds.get(part, 0.0) for report in reports) for part in PARTS}
    total = 1e3 * median(sum(report.seconds.values()) for report in reports)
    steps = median(report.env_steps for report in reports)
    return {
        "task": task, "algo": algo, "worlds": env.spec.num_envs, "horizon": round(steps / env.spec.num_envs),
        "passes": round(median(report.values.get("critic_passes", 0.0) for report in reports)),
        "iteration ms": round(total, 1), **{f"{part} ms": round(ms, 1) for part, ms in spent.items()},
        "steps/s": round(1e3 * steps / total),
    }  # fmt: skip
