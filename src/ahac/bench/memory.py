"""Cost of memory and randomness: steps of a task with commands, a clock, noise and a delay, next to those without."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ahac.bench.clock import interleaved
from ahac.bench.rows import Row, clean_gpu
from ahac.bench.tasks import ROLLOUT, Rollouts
from ahac.envs import Action, Draw, Memory, Task, noisy
from ahac.sim import Real, World, cos, sin, where

__all__ = ["memory_cost", "with_memory"]

COMMAND = 3
"""Size of a velocity command: forward, sideways, turning."""
COMMAND_SECONDS = 5.0
"""Mean time between changes of the command [s]."""
CLOCK_RATE = 2.0
"""Frequency of the gait clock [Hz]."""
NOISE = 0.02
"""Standard deviation of the noise on every observation."""
DELAY = 0.6
"""Delay of the action, in control steps."""
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
    change = task.dt / COMMAND_SECONDS

    def draw_command(world: World, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        return [draw.uniform(-1.0, 1.0) for _ in range(COMMAND)]

    def next_command(world: World, action: Action, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        changed, new = draw.chance(change), [draw.uniform(-1.0, 1.0) for _ in range(COMMAND)]
        return [where(changed > 0.5, a, b) for a, b in zip(new, memory["command"], strict=True)]

    def delayed(world: World, action: Action) -> list[Real]:
        past = world.memory["last action"]
        return [(1.0 - DELAY) * a + DELAY * b for a, b in zip(action, past, strict=True)]

    def clock(world: World, action: Action) -> list[Real]:
        phase = 2.0 * math.pi * CLOCK_RATE * world.time + world.memory["phase"][0]
        return [sin(phase), cos(phase)]

    def tracking(world: World, action: Action) -> Real:
        return -0.1 * sum(((v - c) ** 2 for v, c in zip(world.v, world.memory["command"], strict=False)), 0.0)

    terms = {name: noisy(term, std=NOISE) for name, term in task.policy_observation.items()}
    return replace(
        task,
        memory={
            "command": Memory(COMMAND, start=draw_command, update=next_command),
            "phase": Memory(1, start=lambda world, memory, draw: draw.uniform(0.0, 2.0 * math.pi)),
            "last action": Memory(task.model.nu, update=lambda world, action, memory, draw: action),
        },
        observation={**terms, "command": lambda world, action: world.memory["command"], "clock": clock},
        reward={**task.reward, "tracking": tracking},
        control=delayed,
    )
