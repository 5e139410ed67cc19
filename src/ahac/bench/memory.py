"""Cost of memory and randomness: steps of a task with commands, a clock, noise and a delay, next to those without."""

from __future__ import annotations

from dataclasses import replace

from ahac.bench.clock import interleaved
from ahac.bench.rows import Row, clean_gpu
from ahac.bench.tasks import ROLLOUT, Rollouts
from ahac.envs import ActionDelay, GaitClock, Task, VelocityCommand, noisy

__all__ = ["memory_cost", "with_memory"]

OFFSETS = (0.0, 0.5)
"""Phases of the gait clock, in cycles."""
NOISE = 0.02
"""Standard deviation of the noise on every observation."""
DELAY = (0, 1)
"""Least and most delay of the action, in control steps."""
KINDS = ("forward", "both")
"""What is measured: methods of `Rollouts`."""


def memory_cost(task: Task, sizes: list[int], device: str, threads: list[int], seconds: float) -> list[Row]:
    """Measure a step of a task with and without memory, forward only and with backward."""
    rows: list[Row] = []
    for worlds in sizes:
        for n in threads:
            with clean_gpu(device):
                works = {"plain": task, "memory": with_memory(task)}
                rollouts = {name: Rollouts(one, worlds, device, n) for name, one in works.items()}
                for work in rollouts.values():
                    work.warm_up()
                calls = {f"{name} {kind}": getattr(work, kind) for name, work in rollouts.items() for kind in KINDS}
                took = interleaved(calls, rollouts["plain"].env.spec.device, seconds)
                rows.append(
                    {
                        "task": task.name,
                        "device": device,
                        "threads": n if device == "cpu" else "-",
                        "worlds": worlds,
                        "forward [ms]": took["plain forward"] * 1e3 / ROLLOUT,
                        "with memory [ms]": took["memory forward"] * 1e3 / ROLLOUT,
                        "forward+backward [ms]": took["plain both"] * 1e3 / ROLLOUT,
                        "both with memory [ms]": took["memory both"] * 1e3 / ROLLOUT,
                        "forward ratio": took["memory forward"] / took["plain forward"],
                        "ratio": took["memory both"] / took["plain both"],
                    }
                )
    return rows


def with_memory(task: Task) -> Task:
    """Return a task with velocity commands, a gait clock, noise on all observations and a delay of the action."""
    body, command, clock = task.model.links[0].name, VelocityCommand(), GaitClock(offsets=OFFSETS)
    delay = ActionDelay(task.model.nu, steps=DELAY)
    terms = {name: noisy(term, std=NOISE) for name, term in task.policy_observation.items()}
    return replace(
        task,
        memory={**command.memory, **clock.memory, **delay.memory},
        observation={**terms, "command": command.observation, "clock": clock.observation},
        reward={
            **task.reward,
            "track_lin_vel_xy": command.track_lin_vel_xy(body),
            "track_ang_vel_z": command.track_ang_vel_z(body),
        },
        control=delay.control,
    )
