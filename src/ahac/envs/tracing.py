"""The traced functions of a task: the outputs of a step and of a reset.

Everything is traced with the physics, resets and memory included: a step is one kernel launch forward and one backward.
`ahac.envs.memory` gives the order in which the functions of a task are called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any

from ahac.core.errors import TraceError
from ahac.envs.draws import Draw, UniformInputs
from ahac.envs.memory import MemoryValues
from ahac.envs.resets import NoisyReset
from ahac.envs.task import Task
from ahac.envs.terms import evaluate_observation, evaluate_reward, scalar
from ahac.sim import (
    AppliedForce,
    Controller,
    ForceLaw,
    Real,
    World,
    clip,
    maximum,
    stop_gradient,
    where,
)

__all__ = [
    "CLOCK",
    "Draws",
    "controller",
    "first_world",
    "forces",
    "observation_terms",
    "physics",
    "reset_outputs",
    "step_outputs",
]

CLOCK = 2
"""Size of the episode clock: number of steps and sum of rewards so far."""

DIVERGENCE_LIMIT = 1e12
"""A world has diverged when the sum of squares of its state is this large, or its state or memory is not finite."""

ACTION_PROBE = 1e-36
"""Weight of actions in that sum: too small to matter, but a non-finite action still shows."""

MEMORY_PROBE = 1e-12
"""Weight of memory, which may hold large numbers such as a count of steps; in float32, its square is still in range."""


def step_outputs(
    task: Task, world: World, early_termination: bool, controls: Sequence[Real] | None = None
) -> dict[str, Real | list[Real]]:
    """Return the outputs of the step that led to `world`, with a reset where the episode has ended.

    With `controls`, those that the actuators received, also return the task's signals.
    """
    steps, total = world.context["clock"]
    size = sum((x * x for x in (*world.q, *world.v, *world.act, *(ACTION_PROBE * u for u in world.control))), 0.0)
    draws = Draws.of(world.context)
    # With memory, an episode may depend on the end of the previous one.
    fresh = None if task.memory else _first_outputs(task, first_world(task, draws.reset), draws)

    def unless_diverged(value: Real, otherwise: Real) -> Real:
        # With "<", NaN counts as diverged.
        return where(size < DIVERGENCE_LIMIT, value, otherwise)

    last, reached = _values(task, world), world
    world, action = _finite(task, reached, fresh, unless_diverged)
    if task.memory:
        # The first update only tells whether memory stays finite. Then the second one gets inputs that are selected by
        # the result, so that no gradient flows through an update that does not.
        updated = _update(task, world, action, draws.update())
        size = sum(((MEMORY_PROBE * x) ** 2 for group in updated.values() for x in group), size)
        world, action = _finite(task, reached, fresh, unless_diverged)
        updated = _update(task, world, action, draws.update())
        world.memory = _map_memory(task, updated, lambda name, i, x: unless_diverged(x, 0.0))
        # No gradient crosses the end of an episode.
        before = last
        last = _map_memory(task, updated, lambda name, i, x: stop_gradient(unless_diverged(x, before[name][i])))
    margin = scalar("alive", task.alive(world)) if task.alive is not None and early_termination else 1.0
    fallen = where(margin < 0.0, 1.0, 0.0)
    terminated = unless_diverged(fallen, 1.0)
    steps = steps + 1.0
    timeout = where(steps < task.episode_steps, 0.0, 1.0)
    assert world.before is not None, "step outputs need the world before the step"
    terms = [
        unless_diverged(evaluate_reward(name, term, world.before, action), 0.0) for name, term in task.reward.items()
    ]
    reward = sum(terms, 0.0)
    seen = {
        n: [unless_diverged(x, 0.0) for x in obs]
        for n, obs in _observe(task, world, action, draws.observation()).items()
    }
    signals = {} if controls is None else _signals(task, world, action, [unless_diverged(u, 0.0) for u in controls])
    done = maximum(terminated, timeout) > 0.5
    if fresh is None:
        fresh = _first_outputs(task, first_world(task, draws.reset, last), draws)
    kept = {**_state(world), **seen, **_inputs(world)}
    return {
        **{n: [where(done, a, b) for a, b in zip(fresh[n], group, strict=True)] for n, group in kept.items()},
        "clock": [where(done, 0.0, steps), where(done, 0.0, total + reward)],
        **{f"final_{name}": obs for name, obs in seen.items()},
        "reward": reward,
        "reward_terms": terms,
        "flags": [terminated, timeout * (1.0 - terminated), unless_diverged(0.0, 1.0)],
        "episode": [steps, total + reward],
        **{f"signals.{name}": [unless_diverged(x, 0.0) for x in values] for name, values in signals.items()},
    }


def _map_memory(
    task: Task, values: Mapping[str, Sequence[Real]], function: Callable[[str, int, Real], Real]
) -> MemoryValues:
    """Apply a function of name, index and value to all numbers of a task's memory."""
    named = ((name, [function(name, i, x) for i, x in enumerate(group)]) for name, group in values.items())
    return MemoryValues(task.memory, named)


def controller(task: Task) -> Controller | None:
    """Return the task's map from actions to controls for a simulator; None if controls are actions."""
    control = task.control
    if control is None:
        return None

    def controls(world: World) -> Sequence[Real]:
        _name_inputs(task, world)
        return control(world, [clip(u, -1.0, 1.0) for u in world.control])

    return controls


def forces(task: Task) -> list[ForceLaw]:
    """Return the task's force laws for a simulator."""

    def with_memory(law: ForceLaw) -> ForceLaw:
        def wrapper(world: World) -> Iterable[AppliedForce]:
            _name_inputs(task, world)
            return law(world)

        return update_wrapper(wrapper, law)

    return [with_memory(law) for law in task.forces]


def physics(task: Task) -> dict[str, Any]:
    """Return the settings of a simulator that a task determines."""
    return {
        "dt": task.dt,
        "substeps": task.substeps,
        "integrator": task.integrator,
        "forces": forces(task),
        "memory": {name: entry.size for name, entry in task.memory.items()},
        "controller": controller(task),
        "parameters": None if task.randomization is None else task.randomization.parameters,
        "validate_parameters": False,  # the task has checked the bounds of their distributions
    }


def reset_outputs(
    task: Task, noise: Sequence[Real], step_noise: Sequence[Real] = (), memory: Sequence[Real] = ()
) -> dict[str, list[Real]]:
    """Return state, memory and first observation of an episode.

    Args:
        task: The task.
        noise: Uniform noise in [0, 1) for the reset.
        step_noise: The same for memory and observations.
        memory: All memory at the end of the previous episode.
    """
    draws, numbers = Draws.of({"noise": noise, "step_noise": step_noise}), iter(memory)
    sizes = {name: entry.size for name, entry in task.memory.items()}
    last = MemoryValues(task.memory, ((name, [next(numbers) for _ in range(size)]) for name, size in sizes.items()))
    return _first_outputs(task, first_world(task, draws.reset, last), draws)


@dataclass(frozen=True)
class Draws:
    """Random sources of a step with a reset."""

    reset: Draw
    """For the reset, randomized parameters and starts of memory."""
    update: Callable[[], Draw]
    """For updates of memory; each call begins with the same random numbers."""
    observation: Callable[[], Draw]
    """For an observation. The last one of an episode and the first one of the next use the same random numbers."""

    @classmethod
    def of(cls, noise: Mapping[str, Sequence[Real] | UniformInputs]) -> Draws:
        """Return the draws from groups of random numbers."""
        step = noise.get("step_noise", ())
        return cls(Draw(noise["noise"]), lambda: Draw(step), lambda: Draw(reversed(step)))


def _finite(
    task: Task, world: World, fresh: Mapping[str, Sequence[Real]] | None, unless_diverged: Callable[[Real, Real], Real]
) -> tuple[World, list[Real]]:
    """Return the world and its clipped action, with a diverged world replaced by a freshly reset one.

    This keeps NaN out of observations, rewards and their derivatives, where 0 · NaN would be NaN. Where no fresh one is
    known yet, the world at rest in the reference pose takes its place.
    """
    assert world.before is not None, "step outputs need the world before the step"
    model = world.model
    control = [unless_diverged(u, 0.0) for u in world.control]
    steps, _ = world.context["clock"]
    other = {"q": model.rest_q, "v": [0.0] * model.nv, "act": [0.0] * model.na} if fresh is None else fresh
    memory = [(name, [unless_diverged(x, 0.0) for x in group]) for name, group in world.memory.items()]

    def finite(one: World, before: World | None) -> World:
        q = [unless_diverged(a, b) for a, b in zip(one.q, other["q"], strict=True)]
        v = [unless_diverged(a, b) for a, b in zip(one.v, other["v"], strict=True)]
        act = [unless_diverged(a, b) for a, b in zip(one.act, other.get("act", ()), strict=True)]
        result = World(one.model, q, v, control, before=before, act=act)
        result.memory = MemoryValues(task.memory, memory)
        if task.randomization is not None:
            result.parameters = task.randomization.values(one.parameters)
        return result

    before = finite(world.before, None)
    after = finite(world, before)
    before.clock, after.clock = _clock(steps, 0.0, task.dt), _clock(steps, 1.0, task.dt)
    return after, [clip(u, -1.0, 1.0) for u in control]


def _update(task: Task, world: World, action: Sequence[Real], draw: Draw) -> dict[str, list[Real]]:
    """Return the memory after the step that led to a world."""
    memory, world.random = _values(task, world), draw
    updated = {name: entry.next(name, world, action, memory, draw) for name, entry in task.memory.items()}
    world.random = None
    return updated


def first_world(task: Task, draw: Draw, last: MemoryValues | None = None) -> World:
    """Return the first world of an episode, given all memory at the end of the previous episode."""
    last = MemoryValues(task.memory) if last is None else last
    more = {"memory": last} if _takes_memory(task) else {}
    q, v = _check_reset(task, task.reset(task.model, draw, **more))
    # A reset function of the user's own starts from activations of zero.
    activations = task.reset.activations(task.model) if isinstance(task.reset, NoisyReset) else ()
    world = World(task.model, q, v, [0.0] * task.model.nu, act=activations)
    if task.randomization is not None:
        drawn = task.randomization.draw(draw)
        world.model = task.randomization.parameters.apply(task.model, drawn)
        world.parameters = task.randomization.values(task.randomization.parameters.by_name(drawn))
    world.clock = lambda: 0.0
    world.memory, world.random = last, draw
    first = [(name, entry.first(name, world, last, draw)) for name, entry in task.memory.items()]
    world.memory = MemoryValues(task.memory, first)
    return world


def _takes_memory(task: Task) -> bool:
    try:
        return "memory" in inspect.signature(task.reset).parameters
    except ValueError:  # some callables have no signature
        return False


def _first_outputs(task: Task, world: World, draws: Draws) -> dict[str, list[Real]]:
    """Return state, first observation and memory of a fresh world."""
    seen = _observe(task, world, [0.0] * task.model.nu, draws.observation())
    return {**_state(world), **seen, **_inputs(world)}


def _state(world: World) -> dict[str, list[Real]]:
    return {"q": world.q, "v": world.v, **({"act": world.act} if world.act else {})}


def _inputs(world: World) -> dict[str, list[Real]]:
    """Return parameters and memory for the next step, if there are any."""
    groups = {"parameters": world.parameters, "memory": world.memory}
    return {name: [x for group in entries.values() for x in group] for name, entries in groups.items() if entries}


def _values(task: Task, world: World) -> MemoryValues:
    return MemoryValues(task.memory, ((name, list(group)) for name, group in world.memory.items()))


def _name_inputs(task: Task, world: World) -> None:
    """Let a function of the simulator's world see memory and parameters as all functions of a task do."""
    world.memory = _values(task, world)
    if task.randomization is not None:
        world.parameters = task.randomization.values(world.parameters)


def _clock(steps: Real, more: float, dt: float) -> Callable[[], Real]:
    return lambda: (steps + more) * dt


def _observe(task: Task, world: World, action: Sequence[Real], draw: Draw) -> dict[str, list[Real]]:
    """Return the observations of all groups, each the concatenation of its terms."""
    groups = observation_terms(task, world, action, draw)
    return {group: [x for values in terms.values() for x in values] for group, terms in groups.items()}


def observation_terms(task: Task, world: World, action: Sequence[Real], draw: Draw) -> dict[str, dict[str, list[Real]]]:
    """Return the observation terms of all groups."""
    groups = {"obs": task.policy_observation, "critic_obs": task.critic_observation}
    world.random = draw
    result = {
        group: {name: evaluate_observation(name, term, world, action) for name, term in terms.items()}
        for group, terms in groups.items()
        if terms is not None
    }
    world.random = None
    return result


def _signals(task: Task, world: World, action: Sequence[Real], controls: Sequence[Real]) -> dict[str, list[Real]]:
    """Return the signals of a world whose actuators received these controls."""
    seen = World(world.model, world.q, world.v, controls, act=world.act)
    seen.before, seen.memory, seen.parameters, seen.clock = world.before, world.memory, world.parameters, world.clock
    return {name: evaluate_observation(name, term, seen, action) for name, term in task.signals.items()}


def _check_reset(task: Task, result: object) -> tuple[list[Real], list[Real]]:
    nq, nv = task.model.nq, task.model.nv
    if isinstance(result, tuple) and len(result) == 2 and all(isinstance(part, Sequence) for part in result):
        q, v = result
        if (len(q), len(v)) == (nq, nv):
            return [scalar("reset", x) for x in q], [scalar("reset", x) for x in v]
        result = f"{len(q)} and {len(v)}"
    raise TraceError(
        f"the reset of {task.name!r} must return a tuple of two lists, {nq} positions and {nv} velocities, got {result}"
    )
