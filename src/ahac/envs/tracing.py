"""A task as programs: what the simulator evaluates with every step, and how episodes begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

from ahac.core.errors import TraceError
from ahac.envs.task import Sense, Task, Term
from ahac.sim import Real, Scalar, Vec3, World, clip

__all__ = ["LOST", "begin", "draws", "observation_sizes", "readouts"]

LOST = 1e12
"""A world whose squared coordinates and velocities sum up to more is lost."""

TRACE = 1e-30
"""Of squared actions in that sum: too little to matter, but an action that is not finite leaves its trace."""


def readouts(task: Task, early_termination: bool = True) -> dict[str, Callable[[World], object]]:
    """Observation, reward, its terms, and whether the episode goes on, of one step."""

    def terms(world: World) -> list[Real]:
        assert world.before is not None, "a reward is of a step"
        return [_scalar(name, term(world.before, _action(world))) for name, term in task.reward.items()]

    def reward(world: World) -> Real:
        return sum(terms(world), 0.0)

    def size(world: World) -> Real:
        squares = sum((x * x for x in (*world.q, *world.v)), 0.0)
        return squares + TRACE * sum((u * u for u in world.control), 0.0)

    def alive(world: World) -> Real:
        margin = 1.0 if task.alive is None or not early_termination else _scalar("alive", task.alive(world))
        # Next to nothing until the world is lost, and then more than any margin.
        return margin - (size(world) / LOST) ** 8

    return {
        "obs": lambda world: observe(task, world, _action(world)),
        "reward": reward,
        "terms": terms,
        "alive": alive,
        "size": size,
    }


def observe(task: Task, world: World, action: Sequence[Real]) -> list[Real]:
    """All parts of an observation, in a row."""
    return [x for name, sense in task.observation.items() for x in _part(name, sense, world, action)]


def observation_sizes(task: Task) -> dict[str, int]:
    """How many numbers each part of an observation has."""
    m = task.model
    world = World(m, m.rest_q, [0.0] * m.nv, [0.0] * m.nu)
    return {name: len(_part(name, sense, world, world.control)) for name, sense in task.observation.items()}


def draws(task: Task) -> int:
    """How many random numbers the start of an episode takes."""
    drawn = count()

    def draw(low: float, high: float) -> Real:
        next(drawn)
        return 0.5 * (low + high)

    task.start(task.model, draw)
    return next(drawn)


def begin(task: Task, noise: Sequence[Scalar]) -> dict[str, list[Real]]:
    """State and first observation of an episode, from uniform noise in [0, 1)."""
    numbers = iter(noise)

    def draw(low: float, high: float) -> Real:
        return low + (high - low) * next(numbers)

    q, v = task.start(task.model, draw)
    if len(q) != task.model.nq or len(v) != task.model.nv:
        raise TraceError(
            f"the start of {task.name!r} must give {task.model.nq} positions and {task.model.nv} velocities, got "
            f"{len(q)} and {len(v)}"
        )
    idle = [0.0] * task.model.nu
    return {"q": list(q), "v": list(v), "obs": observe(task, World(task.model, q, v, idle), idle)}


def _action(world: World) -> list[Real]:
    return [clip(u, -1.0, 1.0) for u in world.control]


def _part(name: str, sense: Sense, world: World, action: Sequence[Real]) -> list[Real]:
    value = sense(world, action)
    numbers = list(value) if isinstance(value, Vec3 | Sequence) else [value]
    return [_scalar(name, x) for x in numbers]


def _scalar(name: str, value: object) -> Real:
    if isinstance(value, Scalar | float | int):
        return value
    raise TraceError(f"{name!r} must give traced scalars, got {type(value).__name__}")
