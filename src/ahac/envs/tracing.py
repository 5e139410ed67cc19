"""The traced functions of a task: the outputs of a step and of a reset.

Everything is traced with the physics, resets included: a step is one kernel launch forward and one backward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

from ahac.core.errors import TraceError
from ahac.envs.resets import NoisyReset
from ahac.envs.task import ObsTerm, Task
from ahac.sim import Real, Scalar, Vec3, World, clip, maximum, trace, where

__all__ = ["CLOCK", "num_noise_inputs", "observation_sizes", "reset_outputs", "step_outputs"]

CLOCK = 2
"""Size of the episode clock: number of steps and sum of rewards so far."""

DIVERGENCE_LIMIT = 1e12
"""A world has diverged when the sum of squares of its state is this large or not finite."""

ACTION_PROBE = 1e-36
"""Weight of actions in that sum: too small to matter, but a non-finite action still shows."""


def step_outputs(task: Task, world: World, early_termination: bool) -> dict[str, Real | list[Real]]:
    """Return the outputs of the step that led to `world`, with a reset where the episode has ended."""
    steps, total = world.context["clock"]
    size = sum((x * x for x in (*world.q, *world.v, *world.act, *(ACTION_PROBE * u for u in world.control))), 0.0)
    fresh = reset_outputs(task, world.context["noise"])

    def unless_diverged(value: Real, otherwise: Real) -> Real:
        # With "<", NaN counts as diverged.
        return where(size < DIVERGENCE_LIMIT, value, otherwise)

    world, action = _finite(world, fresh, unless_diverged)
    assert world.before is not None, "step outputs need the world before the step"
    margin = _scalar("alive", task.alive(world)) if task.alive is not None and early_termination else 1.0
    fallen = where(margin < 0.0, 1.0, 0.0)
    terminated = unless_diverged(fallen, 1.0)
    steps = steps + 1.0
    timeout = where(steps < task.episode_steps, 0.0, 1.0)
    terms = [unless_diverged(_scalar(name, term(world.before, action)), 0.0) for name, term in task.reward.items()]
    reward = sum(terms, 0.0)
    final_obs = [unless_diverged(x, 0.0) for x in observe(task, world, action)]
    done = maximum(terminated, timeout) > 0.5
    return {
        "q": [where(done, a, b) for a, b in zip(fresh["q"], world.q, strict=True)],
        "v": [where(done, a, b) for a, b in zip(fresh["v"], world.v, strict=True)],
        **({"act": [where(done, a, b) for a, b in zip(fresh["act"], world.act, strict=True)]} if world.act else {}),
        "obs": [where(done, a, b) for a, b in zip(fresh["obs"], final_obs, strict=True)],
        "clock": [where(done, 0.0, steps), where(done, 0.0, total + reward)],
        "final_obs": final_obs,
        "reward": reward,
        "reward_terms": terms,
        "flags": [terminated, timeout * (1.0 - terminated), unless_diverged(0.0, 1.0)],
        "episode": [steps, total + reward],
    }


def _finite(
    world: World, fresh: Mapping[str, Sequence[Real]], unless_diverged: Callable[[Real, Real], Real]
) -> tuple[World, list[Real]]:
    """Return the world and its clipped action, with a diverged world replaced by a freshly reset one.

    This keeps NaN out of observations, rewards and their derivatives, where 0 · NaN would be NaN.
    """
    assert world.before is not None, "step outputs need the world before the step"
    control = [unless_diverged(u, 0.0) for u in world.control]

    def finite(one: World, before: World | None) -> World:
        q = [unless_diverged(a, b) for a, b in zip(one.q, fresh["q"], strict=True)]
        v = [unless_diverged(a, b) for a, b in zip(one.v, fresh["v"], strict=True)]
        act = [unless_diverged(a, b) for a, b in zip(one.act, fresh.get("act", ()), strict=True)]
        return World(one.model, q, v, control, before=before, act=act)

    return finite(world, finite(world.before, None)), [clip(u, -1.0, 1.0) for u in control]


def observe(task: Task, world: World, action: Sequence[Real]) -> list[Real]:
    """Return the observation: the concatenation of its terms."""
    return [x for name, term in task.observation.items() for x in _evaluate(name, term, world, action)]


def observation_sizes(task: Task) -> dict[str, int]:
    """Return the size of each observation term, in order."""
    m = task.model

    def terms(q: list[Scalar], v: list[Scalar], u: list[Scalar], act: list[Scalar]) -> dict[str, list[Real]]:
        world = World(m, q, v, u, act=act)
        return {name: _evaluate(name, term, world, u) for name, term in task.observation.items()}

    sizes = {"q": m.nq, "v": m.nv, "u": m.nu, "act": m.na}
    return {name: len(values) for name, values in trace(terms, sizes).outputs.items()}


def num_noise_inputs(task: Task) -> int:
    """Return how many random numbers a reset draws."""
    draws = count()

    def reset(noise: list[Scalar]) -> dict[str, list[Real]]:
        def draw(low: float, high: float) -> Real:
            next(draws)
            return low + (high - low) * noise[0]

        task.reset(task.model, draw)
        return {}

    trace(reset, {"noise": 1})
    return next(draws)


def reset_outputs(task: Task, noise: Sequence[Real]) -> dict[str, list[Real]]:
    """Return the state and first observation of an episode, from uniform noise in [0, 1)."""
    numbers = iter(noise)

    def draw(low: float, high: float) -> Real:
        return low + (high - low) * next(numbers)

    q, v = _check_reset(task, task.reset(task.model, draw))
    idle = [0.0] * task.model.nu
    # A reset function of the user's own starts from activations of zero.
    activations = task.reset.activations(task.model) if isinstance(task.reset, NoisyReset) else ()
    world = World(task.model, q, v, idle, act=activations)
    act = {"act": world.act} if world.act else {}
    return {"q": list(q), "v": list(v), **act, "obs": observe(task, world, idle)}


def _check_reset(task: Task, result: object) -> tuple[list[Real], list[Real]]:
    nq, nv = task.model.nq, task.model.nv
    if isinstance(result, tuple) and len(result) == 2 and all(isinstance(part, Sequence) for part in result):
        q, v = result
        if (len(q), len(v)) == (nq, nv):
            return [_scalar("reset", x) for x in q], [_scalar("reset", x) for x in v]
        result = f"{len(q)} and {len(v)}"
    raise TraceError(
        f"the reset of {task.name!r} must return a tuple of two lists, {nq} positions and {nv} velocities, got {result}"
    )


def _evaluate(name: str, term: ObsTerm, world: World, action: Sequence[Real]) -> list[Real]:
    value = term(world, action)
    numbers = list(value) if isinstance(value, Vec3 | Sequence) else [value]
    return [_scalar(name, x) for x in numbers]


def _scalar(name: str, value: object) -> Real:
    if isinstance(value, Scalar | float | int):
        return value
    raise TraceError(
        f"{name!r} must return numbers such as world.position('torso').z - 0.3, not comparisons or tensors; got "
        f"{type(value).__name__}"
    )
