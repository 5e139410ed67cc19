"""Speed of training: the time of one iteration and of its parts, and of the runs of a study."""

from __future__ import annotations

import sys
from dataclasses import replace
from statistics import fmean, median

import torch

try:
    import resource
except ImportError:  # Windows
    resource = None

from ahac.algos.algorithm import IterationResult
from ahac.algos.config import ShortHorizonConfig
from ahac.algos.off_policy import OffPolicy
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
    reports, peak = _reports(task, config, worlds, device, iterations=iterations, graphs=graphs)
    spent = {part: 1e3 * median(report.seconds.get(part, 0.0) for report in reports) for part in PARTS}
    total = 1e3 * median(sum(report.seconds.values()) for report in reports)
    steps = median(report.env_steps for report in reports)
    return {
        "task": task,
        "algo": algo,
        "worlds": worlds,
        "horizon": round(steps / worlds),
        "epochs": round(median(report.metrics.get("critic_epochs", 0.0) for report in reports)),
        "iteration ms": round(total, 1),
        **{f"{part} ms": round(ms, 1) for part, ms in spent.items()},
        "steps/s": round(1e3 * steps / total),
        "peak MB": peak,
    }


def run_time(
    task: Task,
    algorithm: AlgorithmConfig,
    *,
    worlds: int,
    device: str,
    run_iterations: int,
    run_env_steps: int | None,
    iterations: int = 20,
    graphs: bool = True,
) -> Row:
    """Estimate how long a run takes from its first iterations that learn, with torch on one thread.

    If the horizon adapts, "minutes" holds for the initial horizon, and "minutes, longest horizon" for the upper bound.

    Args:
        task: The task.
        algorithm: Settings of the algorithm.
        worlds: Number of worlds.
        device: Device.
        run_iterations: Number of iterations of the run.
        run_env_steps: Number of environment steps of the run, which overrides `run_iterations`; None if it has none.
        iterations: Number of iterations to measure; their means count.
        graphs: Whether to use CUDA graphs.
    """

    def measure(config: AlgorithmConfig) -> Row:
        reports, _ = _reports(task, config, worlds, device, iterations=iterations, graphs=graphs)
        seconds = fmean(sum(report.seconds.values()) for report in reports)
        steps = fmean(report.env_steps for report in reports)
        count = run_iterations if run_env_steps is None else run_env_steps / steps
        return {
            "worlds": worlds,
            "horizon": round(steps / worlds),
            "iteration ms": round(1e3 * seconds, 1),
            "steps/s": round(steps / seconds),
            "minutes": round(seconds * count / 60.0, 2),
        }

    row = {**measure(algorithm), "minutes, longest horizon": None}
    if isinstance(algorithm, ShortHorizonConfig) and algorithm.horizon.rule != "fixed":
        most = algorithm.horizon.max
        longest = replace(algorithm, horizon=replace(algorithm.horizon, initial=most, min=most))
        row["minutes, longest horizon"] = measure(longest)["minutes"]
    return row


def _reports(
    task: str | Task, config: AlgorithmConfig, worlds: int, device: str, *, iterations: int, graphs: bool
) -> tuple[list[IterationResult], float | None]:
    """Train for some iterations; return the results of the last ones, which all learn, and the peak memory [MB]."""
    check_int("iterations", iterations, 1)
    with clean_gpu(device):
        env = make(task, num_envs=worlds, device=device)
        algorithm = make_algorithm(config, env.spec, seed=0)
        executor = make_executor(env, [algorithm.generator], graphs)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            while isinstance(algorithm, OffPolicy) and algorithm.collector.warming_up:
                executor.call(algorithm.iterate, env, 0.0)
            reports = [executor.call(algorithm.iterate, env, 0.0) for _ in range(iterations + WARM_UP)][WARM_UP:]
        finally:
            torch.set_num_threads(threads)
        return reports, _peak(env.spec.device)


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
