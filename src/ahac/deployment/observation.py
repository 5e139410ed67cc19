"""Description of an observation: its terms in order, and what each number of a term is."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from ahac.deployment.quantities import Quantity, all_quantities, recognize
from ahac.envs.components.delays import ObservationDelay
from ahac.envs.components.history import ObservationHistory
from ahac.envs.memory import MemoryValues
from ahac.envs.observations import values_of
from ahac.envs.task import ObsTerm, Task
from ahac.sim import JointKind, Real, World
from ahac.sim.compiler.program import evaluate, trace

__all__ = ["describe_components", "describe_observation"]

STATES = 32
"""Random states in which observed numbers are compared with known quantities."""
SEED = 0


class _MeanDraw:
    """Random source that returns the mean: observations without noise."""

    def __call__(self, low: Real = 0.0, high: Real = 1.0) -> Real:
        return low + 0.5 * (high - low)

    def uniform(self, low: Real = 0.0, high: Real = 1.0) -> Real:
        return self(low, high)

    def normal(self, mean: Real = 0.0, std: Real = 1.0) -> Real:
        return mean

    def chance(self, probability: Real) -> Real:
        return probability


@dataclass(frozen=True)
class _Measured:
    """Observation terms and quantities in random states."""

    terms: Mapping[str, np.ndarray]
    """[states, size] by name."""
    quantities: list[Quantity]
    table: np.ndarray
    """[states, quantities]."""

    def numbers(self, key: str, name: str) -> list[dict[str, Any]]:
        """Describe each number of a term."""
        columns = self.terms[key].T
        found = [recognize(column, self.quantities, self.table) for column in columns]
        unknown = [{"label": f"{name}[{i}]", "quantity": None} for i in range(len(columns))]
        return [a if a is not None else b for a, b in zip(found, unknown, strict=True)]


def describe_observation(task: Task) -> list[dict[str, Any]]:
    """Describe the policy's observation term by term, without noise and delays.

    A term that belongs to a part of the task, such as a `GaitClock`, has its name as "component".
    """
    terms = task.policy_observation
    measured = _measure(task, dict(_with_inner_terms(terms)))
    described: list[dict[str, Any]] = []
    start = 0
    for name, term in terms.items():
        numbers = _numbers(name, name, term, measured)
        component = getattr(_component(term), "name", None)
        described.append(
            {"name": name, "start": start, "size": len(numbers), "component": component, "numbers": numbers}
        )
        start += len(numbers)
    return described


def describe_components(task: Task) -> dict[str, dict[str, Any]]:
    """Return the settings of the parts of a task that observation terms belong to, by name."""
    described: dict[str, dict[str, Any]] = {}
    for _, term in _with_inner_terms(task.policy_observation):
        owner = _component(term)
        if is_dataclass(owner) and hasattr(owner, "name"):
            values = {field.name: getattr(owner, field.name) for field in fields(owner)}
            plain = {name: value for name, value in values.items() if _is_plain(value)}
            described[str(values["name"])] = {"type": type(owner).__name__, **plain}
    return described


def _with_inner_terms(terms: Mapping[str, ObsTerm]) -> Iterator[tuple[str, ObsTerm]]:
    """Yield all terms, and those that histories and delays contain, by a key of their own."""
    for key, term in terms.items():
        yield key, term
        owner = _component(term)
        if isinstance(owner, ObservationHistory | ObservationDelay):
            yield from _with_inner_terms({f"{key}/": owner.term})


def _numbers(key: str, name: str, term: ObsTerm, measured: _Measured) -> list[dict[str, Any]]:
    owner = _component(term)
    if not isinstance(owner, ObservationHistory | ObservationDelay):
        return measured.numbers(key, name)
    inner = _numbers(f"{key}/", name, owner.term, measured)
    steps = owner.steps if isinstance(owner, ObservationHistory) else owner.history
    return [_older(number, k) for k in range(steps) for number in inner]


def _older(number: dict[str, Any], steps: int) -> dict[str, Any]:
    """Return the description of a number that is observed some steps later."""
    age = f" ({steps} step{'s' * (steps > 1)} ago)" if steps else ""
    return {**number, "label": number["label"] + age, "steps_ago": number.get("steps_ago", 0) + steps}


def _component(term: ObsTerm) -> object:
    """Return the part of a task, such as a `GaitClock`, whose method a term is; None for other functions."""
    owner = getattr(inspect.unwrap(term), "__self__", None)
    return owner if is_dataclass(owner) else None


def _is_plain(value: object) -> bool:
    """Return whether a value can be written to JSON."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _measure(task: Task, terms: Mapping[str, ObsTerm]) -> _Measured:
    """Evaluate terms and quantities in random states, without compiling anything."""
    model, randomization = task.model, task.randomization
    owners = [_component(term) for term in terms.values()]
    found: list[list[Quantity]] = []

    def observe(q: list[Real], v: list[Real], action: list[Real], time: list[Real], **rest: list[Real]) -> dict:
        world = World(model, q, v, action, act=rest["act"])
        left = iter(rest["memory"])
        world.clock, world.random = (lambda: time[0]), _MeanDraw()
        named = ((name, [next(left) for _ in range(entry.size)]) for name, entry in task.memory.items())
        world.memory = MemoryValues(task.memory, named)
        if randomization is not None:
            world.parameters = randomization.values(randomization.parameters.by_name(rest["parameters"]))
        seen = {f"term {key}": values_of(term, world, action) for key, term in terms.items()}
        found.append(all_quantities(task, world, action, owners))
        return {**seen, "quantities": [quantity.value for quantity in found[0]]}

    inputs = _random_inputs(task)
    values = evaluate(trace(observe, {name: array.shape[1] for name, array in inputs.items()}), inputs)
    return _Measured({key: values[f"term {key}"] for key in terms}, found[0], values["quantities"])


def _random_inputs(task: Task) -> dict[str, np.ndarray]:
    """Draw [states, size] inputs of the terms."""
    model, rng = task.model, np.random.default_rng(SEED)
    q = np.asarray(model.rest_q) + rng.uniform(-1.0, 1.0, (STATES, model.nq))
    for joint in model.joints:
        if joint.kind is JointKind.BALL:
            quaternion = q[:, joint.q : joint.q + 4]
            quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    parameters = np.zeros((1, 0))
    if task.randomization is not None:
        parameters = task.randomization.parameters.defaults(1).double().numpy()
    return {
        "q": q,
        "v": rng.standard_normal((STATES, model.nv)),
        "action": rng.uniform(-1.0, 1.0, (STATES, model.nu)),
        "time": rng.uniform(0.0, 5.0, (STATES, 1)),
        "act": rng.uniform(0.0, 1.0, (STATES, model.na)),
        "memory": rng.uniform(0.0, 1.0, (STATES, sum(memory.size for memory in task.memory.values()))),
        "parameters": parameters * rng.uniform(0.9, 1.1, (STATES, parameters.shape[1])),
    }
