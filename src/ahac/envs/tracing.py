"""A task as programs: what comes of a step, and how episodes begin.

All of it is traced with the physics, resets included: a step is one launch forward and one backward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

from ahac.core.errors import TraceError
from ahac.envs.task import ObsTerm, Task
from ahac.sim import Real, Scalar, Vec3, World, clip, maximum, trace, where

__all__ = ["CLOCK", "num_noise_inputs", "observation_sizes", "reset_outputs", "step_outputs"]

CLOCK = 2
"""Numbers that an episode carries along: its steps and the sum of its rewards so far."""

DIVERGENCE_LIMIT = 1e12
"""A world whose squared coordinates and velocities sum up to more is lost."""

ACTION_PROBE = 1e-36
"""Of actions in that sum: too little to matter, but one that is not finite shows."""


def step_outputs(task: Task, world: World, early_termination: bool) -> dict[str, Real | list[Real]]:
    """What comes of a step that led to `world`; a new episode begins where one is over."""
    steps, total = world.context["clock"]
    size = sum((x * x for x in (*world.q, *world.v, *(ACTION_PROBE * u for u in world.control))), 0.0)
    fresh = reset_outputs(task, world.context["noise"])

    def unless_lost(value: Real, otherwise: Real) -> Real:
        # Only "<" is false of what is not a number.
        return where(size < DIVERGENCE_LIMIT, value, otherwise)

    world, action = _finite(world, fresh, unless_lost)
    assert world.before is not None, "an outcome is of a step"
    margin = _scalar("alive", task.alive(world)) if task.alive is not None and early_termination else 1.0
    fallen = where(margin < 0.0, 1.0, 0.0)
    terminated, steps = unless_lost(fallen, 1.0), steps + 1.0
    timeout = where(steps < task.episode_steps, 0.0, 1.0)
    terms = [unless_lost(_scalar(name, term(world.before, action)), 0.0) for name, term in task.reward.items()]
    reward = sum(terms, 0.0)
    final_obs = [unless_lost(x, 0.0) for x in observe(task, world, action)]
    over = maximum(terminated, timeout) > 0.5
    return {
        "q": [where(over, a, b) for a, b in zip(fresh["q"], world.q, strict=True)],
        "v": [where(over, a, b) for a, b in zip(fresh["v"], world.v, strict=True)],
        "obs": [where(over, a, b) for a, b in zip(fresh["obs"], final_obs, strict=True)],
        "clock": [where(over, 0.0, steps), where(over, 0.0, total + reward)],
        "final_obs": final_obs,
        "reward": reward,
        "reward_terms": terms,
        "flags": [terminated, timeout * (1.0 - terminated), unless_lost(0.0, 1.0)],
        "episode": [steps, total + reward],
    }


def _finite(
    world: World, fresh: Mapping[str, Sequence[Real]], unless_diverged: Callable[[Real, Real], Real]
) -> tuple[World, list[Real]]:
    """The world and its clipped action; one that is lost is looked at as if it had just begun.

    So nothing that is not a number enters an observation or a reward, nor their derivatives, where 0 · NaN is NaN.
    """
    assert world.before is not None, "an outcome is of a step"
    control = [unless_diverged(u, 0.0) for u in world.control]

    def finite(one: World, before: World | None) -> World:
        q = [unless_diverged(a, b) for a, b in zip(one.q, fresh["q"], strict=True)]
        v = [unless_diverged(a, b) for a, b in zip(one.v, fresh["v"], strict=True)]
        return World(one.model, q, v, control, before=before)

    return finite(world, finite(world.before, None)), [clip(u, -1.0, 1.0) for u in control]


def observe(task: Task, world: World, action: Sequence[Real]) -> list[Real]:
    """All parts of an observation, in a row."""
    return [x for name, sense in task.observation.items() for x in _part(name, sense, world, action)]


def observation_sizes(task: Task) -> dict[str, int]:
    """How many numbers each part of an observation has."""
    m = task.model

    def parts(q: list[Scalar], v: list[Scalar], u: list[Scalar]) -> dict[str, list[Real]]:
        return {name: _part(name, sense, World(m, q, v, u), u) for name, sense in task.observation.items()}

    return {name: len(part) for name, part in trace(parts, {"q": m.nq, "v": m.nv, "u": m.nu}).outputs.items()}


def num_noise_inputs(task: Task) -> int:
    """How many random numbers the start of an episode takes."""
    drawn = count()

    def start(noise: list[Scalar]) -> dict[str, list[Real]]:
        def draw(low: float, high: float) -> Real:
            next(drawn)
            return low + (high - low) * noise[0]

        task.reset(task.model, draw)
        return {}

    trace(start, {"noise": 1})
    return next(drawn)


def reset_outputs(task: Task, noise: Sequence[Real]) -> dict[str, list[Real]]:
    """State and first observation of an episode, from uniform noise in [0, 1)."""
    numbers = iter(noise)

    def draw(low: float, high: float) -> Real:
        return low + (high - low) * next(numbers)

    q, v = _checked_start(task, task.reset(task.model, draw))
    idle = [0.0] * task.model.nu
    return {"q": list(q), "v": list(v), "obs": observe(task, World(task.model, q, v, idle), idle)}


def _checked_start(task: Task, found: object) -> tuple[list[Real], list[Real]]:
    wanted = (task.model.nq, task.model.nv)
    if isinstance(found, tuple) and len(found) == 2 and all(isinstance(part, Sequence) for part in found):
        q, v = found
        if (len(q), len(v)) == wanted:
            return [_scalar("start", x) for x in q], [_scalar("start", x) for x in v]
        found = f"{len(q)} and {len(v)}"
    raise TraceError(
        f"the start of {task.name!r} must give a pair of lists, {wanted[0]} positions and {wanted[1]} velocities, got "
        f"{found}"
    )


def _part(name: str, sense: ObsTerm, world: World, action: Sequence[Real]) -> list[Real]:
    value = sense(world, action)
    numbers = list(value) if isinstance(value, Vec3 | Sequence) else [value]
    return [_scalar(name, x) for x in numbers]


def _scalar(name: str, value: object) -> Real:
    if isinstance(value, Scalar | float | int):
        return value
    raise TraceError(
        f"{name!r} must give numbers such as world.position('torso').z - 0.3, no comparisons or tensors; got "
        f"{type(value).__name__}"
    )
