"""Speed of training: one iteration, and what its parts take."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

import torch

try:
    import resource
except ImportError:  # Windows
    resource = None

from ahac.algos.config import FirstOrderConfig
from ahac.algos.recipes import recipe
from ahac.algos.registry import make_algorithm
from ahac.core.errors import InputError
from ahac.envs import make

__all__ = ["PAPER_TASKS", "iteration_times"]

Row = dict[str, Any]
PARTS = ("rollout", "gradient", "critic", "rest", "learning")
PAPER_TASKS = ("hopper", "ant", "anymal", "humanoid", "snu_humanoid")
WARM_UP = 4
"""Iterations before the measured ones: they compile, allocate and record."""


def iteration_times(
    task: str, algo: str, preset: str, *, worlds: int | None, device: str, horizon: int | None = None,
    iterations: int = 20, graphs: bool = True,
) -> Row:  # fmt: skip
    """Milliseconds of an iteration, medians over some of them, torch on one thread."""
    made = recipe(task, algo, preset)
    learner = made.learner
    if horizon is not None:
        if not isinstance(learner, FirstOrderConfig):
            raise InputError(f"a horizon is for ahac, ahac1, shac and bptt, got one for {algo}; leave it out")
        learner = replace(learner, horizon=replace(learner.horizon, rule="fixed", first=horizon))
    env = make(task, num_envs=worlds or made.num_envs, device=device)
    algorithm = make_algorithm(learner, env.spec, seed=0, graphs=graphs)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        reports = [algorithm.iterate(env, 0.0) for _ in range(iterations + WARM_UP)][WARM_UP:]
    finally:
        torch.set_num_threads(threads)
    spent = {part: 1e3 * median(report.seconds.get(part, 0.0) for report in reports) for part in PARTS}
    total = 1e3 * median(sum(report.seconds.values()) for report in reports)
    steps = median(report.env_steps for report in reports)
    return {
        "task": task, "algo": algo, "worlds": env.spec.num_envs, "horizon": round(steps / env.spec.num_envs),
        "passes": round(median(report.values.get("critic_passes", 0.0) for report in reports)),
        "iteration ms": round(total, 1), **{f"{part} ms": round(ms, 1) for part, ms in spent.items()},
        "steps/s": round(1e3 * steps / total), "peak MB": _peak(env.spec.device),
    }  # fmt: skip


def _peak(device: torch.device) -> float:
    """Megabytes: what torch has on the GPU, recordings included; on the CPU, of the whole process so far."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device) / 1e6
    return float("nan") if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
