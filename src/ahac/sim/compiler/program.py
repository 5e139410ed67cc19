"""Programs: traced functions with named groups of inputs and outputs, their adjoints, and their values in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ahac.core.errors import TraceError
from ahac.sim.compiler.graph import Graph, Real, Scalar
from ahac.sim.compiler.operations import OPERATIONS
from ahac.sim.compiler.reverse_mode import pullback

__all__ = ["Program", "StepPrograms", "adjoint", "evaluate", "node_value", "trace"]


@dataclass(frozen=True)
class Program:
    """A function of one world: groups of scalars in, groups of scalars out."""

    graph: Graph
    inputs: dict[str, list[Scalar]]
    outputs: dict[str, list[Real]]
    given: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Nodes whose value is not computed but read from an input (group, position)."""

    def source(self, index: int) -> tuple[str, int] | None:
        """Return the input (group, position) that a node's value is read from, or None if it is computed."""
        node = self.graph.nodes[index]
        return node[1] if node[0] == "input" else self.given.get(index)

    def live(self) -> list[int]:
        """Return the nodes that the outputs depend on, in an order in which they can be computed."""
        nodes = self.graph.nodes
        needed: set[int] = set()
        waiting = [o.index for group in self.outputs.values() for o in group if isinstance(o, Scalar)]
        while waiting:
            index = waiting.pop()
            if index not in needed:
                needed.add(index)
                if self.source(index) is None:
                    waiting.extend(a for a in nodes[index][1:] if a >= 0)
        return sorted(needed)

    @cached_property
    def picks(self) -> dict[int, dict[int, int]]:
        """Results of each call that the outputs depend on: {call: {node: position of the result}}."""
        nodes, constants = self.graph.nodes, self.graph.constants
        found: dict[int, dict[int, int]] = {}
        for index in self.live():
            if nodes[index][0] == "pick":
                call, position = nodes[index][1:]
                found.setdefault(call, {})[index] = int(constants[~position])
        return found

    def operations(self) -> int:
        """Return the number of scalar operations; those of a call count once for every row."""
        calls = self.graph.calls
        return sum(sum(calls[i].operations.values()) if i in calls else 1 for i in self.live())


@dataclass(frozen=True)
class StepPrograms:
    """The three programs of a control step."""

    normalize_state: Program
    """q -> q, with unit quaternions."""
    substep: Program
    """q, v, u, f, h -> q, v."""
    readout: Program
    """q, v, u, q0, v0, context -> readouts."""


def trace(function: Callable[..., Mapping[str, Sequence[Real]]], sizes: Mapping[str, int]) -> Program:
    """Run `function(name=[scalars], ...)` once, with `sizes[name]` scalars per group, and return its computation."""
    graph = Graph()
    inputs = {name: [graph.leaf("input", (name, i)) for i in range(size)] for name, size in sizes.items()}
    outputs = {name: list(group) for name, group in function(**inputs).items()}
    for name, group in outputs.items():
        for value in group:
            if not isinstance(value, Scalar | float | int):
                raise TraceError(f"output {name!r} must be a list of traced scalars, got {type(value).__name__} in it")
    return Program(graph, inputs, outputs)


def adjoint(program: Program, wrt: Sequence[str], unknowns: str | None = None) -> Program:
    """Return the adjoint program, which maps the inputs and `<output>_bar` to `<input>_bar` for the groups in `wrt`.

    It extends the program's own graph, so that value and derivative share common subexpressions. With `unknowns`, the
    solution of the program's implicit system is not computed again but read from an input group of that name.
    """
    graph = program.graph
    inputs = dict(program.inputs)
    for name, group in program.outputs.items():
        inputs[f"{name}_bar"] = [graph.leaf("input", (f"{name}_bar", i)) for i in range(len(group))]
    seeds = [pair for name, group in program.outputs.items() for pair in zip(group, inputs[f"{name}_bar"], strict=True)]
    given: dict[int, tuple[str, int]] = {}
    if unknowns is not None:
        given = {index: (unknowns, i) for i, index in enumerate(graph.implicit)}
        inputs[unknowns] = [graph.leaf("input", source) for source in given.values()]
    gradients = iter(pullback(graph, seeds, [scalar for name in wrt for scalar in program.inputs[name]]))
    outputs = {f"{name}_bar": [next(gradients) for _ in program.inputs[name]] for name in wrt}
    return Program(graph, inputs, outputs, given)


def evaluate(program: Program, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Evaluate outputs [..., size] for inputs [..., size] node by node in numpy: slow, but without compilation."""
    graph = program.graph
    computed: dict[int, Any] = {}
    for index in program.live():
        if (source := program.source(index)) is not None:
            group, position = source
            computed[index] = np.asarray(values[group], dtype=np.float64)[..., position]
        else:
            computed[index] = node_value(graph, index, computed)
    batch = np.broadcast_shapes(*(np.shape(v)[:-1] for v in values.values()))
    return {
        name: np.stack(
            [np.broadcast_to(computed[o.index] if isinstance(o, Scalar) else o, batch) for o in group], axis=-1
        )
        if group
        else np.zeros((*batch, 0))
        for name, group in program.outputs.items()
    }


def node_value(graph: Graph, index: int, computed: Mapping[int, Any]) -> Any:  # noqa: ANN401 - a call has several values
    """Return the value of a node, given those of its arguments: a number or array, or a list of them for a call."""
    operation, *arguments = graph.nodes[index]
    numbers = [computed[a] if a >= 0 else graph.constants[~a] for a in arguments]
    if index in graph.calls:
        return graph.calls[index].values(numbers[1:])
    if operation == "pick":
        results, position = numbers
        return results[int(position)]
    return OPERATIONS[operation].value(*numbers)
