"""Speed of training: the time of one iteration and of its parts, and of the runs of a study."""

from __future__ import annotations

import sys
from dataclasses import replace
from statistics import median

import torch

try:
    import resource
except ImportError:  # Windows
    resource = None

from ahac.algos.config import ShortHorizonConfig
from ahac.algos.recipes import recipe
from ahac.algos.registry import AlgorithmConfig, make_algorithm
from ahac.bench.rows import Row, clean_gpu
from ahac.core.checks import check_int
from ahac.core.errors import InputError
from ahac.envs import Task, make
from ahac.runtime.cuda_graphs import make_executor

__all__ = ["PAPER_TASKS", "iteration_times", "run_time"]

PARTS = ("rollout", "gradient", "critic", "rest", "learning")
PAPER_TASKS = ("hopper", "ant", "anymal", "humanoid", "snu_humanoid")
WARM_UP = 4
"""Iterations before the measured ones; they compile, allocate memory and capture CUDA graphs."""


def iteration_times(
    task: str,
    algo: str,
    preset: str,
    *,
    worlds: int | None,
    device: str,
    horizon: int | None = None,
    iterations: int = 20,
    graphs: bool = True,
) -> Row:
    """Measure the median milliseconds of an iteration of a recipe and of its parts, with torch on one thread."""
    defaults = recipe(task, algo, preset)
    worlds = defaults.num_envs if worlds is None else check_int("worlds", worlds, 1)
    config = defaults.algorithm
    if horizon is not None:
        config = _fixed_horizon(config, algo, check_int("horizon", horizon, 1))
    times = _measure(task, config, worlds, device, iterations=iterations, graphs=graphs)
    return {"task": task, "algo": algo, **times}


def run_time(
    task: Task,
    algorithm: AlgorithmConfig,
    *,
    worlds: int,
    device: str,
    length: int,
    env_steps: int | None,
    iterations: int = 20,
    graphs: bool = True,
) -> Row:
    """Estimate how long a run takes from its first iterations, with torch on one thread.

    Args:
        task: The task.
        algorithm: Settings of the algorithm.
        worlds: Number of worlds.
        device: Device.
        length: Number of iterations of the run.
        env_steps: Number of environment steps of the run, which overrides `length`; None if it has none.
        iterations: Number of iterations to measure; medians count.
        graphs: Whether to use CUDA graphs.
    """
    times = _measure(task, algorithm, worlds, device, iterations=iterations, graphs=graphs)
    seconds = 1e-3 * times["iteration ms"] * length if env_steps is None else env_steps / times["steps/s"]
    return {**times, "minutes": round(seconds / 60.0, 2)}


def _measure(
    task: str | Task, config: AlgorithmConfig, worlds: int, device: str, *, iterations: int, graphs: bool
) -> Row:
    check_int("iterations", iterations, 1)
    with clean_gpu(device):
        env = make(task, num_envs=worlds, device=device)
        algorithm = make_algorithm(config, env.spec, seed=0)
        executor = make_executor(env, [algorithm.generator], graphs)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            reports = [executor.call(algorithm.iterate, env, 0.0) for _ in range(iterations + WARM_UP)][WARM_UP:]
        finally:
            torch.set_num_threads(threads)
        peak = _peak(env.spec.device)
    spent = {part: 1e3 * median(report.seconds.get(part, 0.0) for report in reports) for part in PARTS}
    total = 1e3 * median(sum(report.seconds.values()) for report in reports)
    steps = median(report.env_steps for report in reports)
    return {
        "worlds": worlds,
        "horizon": round(steps / worlds),
        "epochs": round(median(report.metrics.get("critic_epochs", 0.0) for report in reports)),
        "iteration ms": round(total, 1),
        **{f"{part} ms": round(ms, 1) for part, ms in spent.items()},
        "steps/s": round(1e3 * steps / total),
        "peak MB": peak,
    }


def _fixed_horizon(algorithm: AlgorithmConfig, algo: str, horizon: int) -> ShortHorizonConfig:
    if not isinstance(algorithm, ShortHorizonConfig):
        raise InputError(
            f"a fixed horizon applies to first-order algorithms, such as shac, got one for {algo}; remove it"
        )
    return replace(algorithm, horizon=replace(algorithm.horizon, rule="fixed", initial=horizon))


def _peak(device: torch.device) -> float | None:
    """Return the peak memory [MB]: on CUDA, reserved by torch for this row; on the CPU, of the process so far."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device) / 1e6
    if resource is None:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
