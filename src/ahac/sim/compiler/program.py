"""Programs: traced functions with named groups of inputs and outputs, their adjoints, and their values in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ahac.core.errors import TraceError
from ahac.sim.compiler.graph import Graph, Real, Scalar
from ahac.sim.compiler.operations import OPERATIONS
from ahac.sim.compiler.reverse_mode import pullback

__all__ = ["Program", "StepPrograms", "adjoint", "evaluate", "trace"]


@dataclass(frozen=True)
class Program:
    """A function of one world: groups of scalars in, groups of scalars out."""

    graph: Graph
    inputs: dict[str, list[Scalar]]
    outputs: dict[str, list[Real]]
    given: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Nodes that are not computed but taken from an input (group, position)."""

    def source(self, index: int) -> tuple[str, int] | None:
        """The input that a node's value comes from, if it comes from one."""
        node = self.graph.nodes[index]
        return node[1] if node[0] == "input" else self.given.get(index)

    def live(self) -> list[int]:
        """The nodes that the outputs need, in an order in which they can be computed."""
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


@dataclass(frozen=True)
class StepPrograms:
    """The three programs of a control step; `y` are the readouts."""

    normalize_state: Program
    """q -> q"""
    substep: Program
    """q, v, u, f, h -> q, v"""
    readout: Program
    """q, v, u, q0, v0 -> y"""


def trace(function: Callable[..., Mapping[str, Sequence[Real]]], sizes: Mapping[str, int]) -> Program:
    """Run `function(name=[scalars], ...)` once, with `sizes[name]` scalars in each group, and keep what it did."""
    graph = Graph()
    inputs = {name: [graph.leaf("input", (name, i)) for i in range(size)] for name, size in sizes.items()}
    outputs = {name: list(group) for name, group in function(**inputs).items()}
    for name, group in outputs.items():
        for value in group:
            if not isinstance(value, Scalar | float | int):
                raise TraceError(f"output {name!r} must be a list of traced scalars, got {type(value).__name__} in it")
    return Program(graph, inputs, outputs)


def adjoint(program: Program, wrt: Sequence[str], unknowns: str | None = None) -> Program:
    """The transposed derivative: takes the inputs and `<output>_bar`, returns `<input>_bar` for the groups in `wrt`.

    Grows the program's own graph, so that value and derivative share their common parts. With `unknowns`, the solution
    of the program's implicit system is not found again but taken from an input group of that name.
    """
    graph = program.graph
    inputs = dict(program.inputs)
    for name, group in program.outputs.items():
        inputs[f"{name}_bar"] = [graph.leaf("input", (f"{name}_bar", i)) for i in range(len(group))]
    seeds = [pair for name, group in program.outputs.items() for pair in zip(group, inputs[f"{name}_bar"], strict=True)]
    given: dict[int, tuple[str, int]] = {}
    if unknowns is not None:
        given = {index: (unknowns, i) for i, index in enumerate(graph.implicit)}
        inputs[unknowns] = [graph.leaf("input", place) for place in given.values()]
    gradients = iter(pullback(graph, seeds, [scalar for name in wrt for scalar in program.inputs[name]]))
    outputs = {f"{name}_bar": [next(gradients) for _ in program.inputs[name]] for name in wrt}
    return Program(graph, inputs, outputs, given)


def evaluate(program: Program, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs [..., size] for inputs [..., size], node by node in numpy: slow, but nothing needs compiling."""
    graph = program.graph
    known: dict[int, np.ndarray | float] = {}
    for index in program.live():
        if (place := program.source(index)) is not None:
            known[index] = np.asarray(values[place[0]], dtype=np.float64)[..., place[1]]
        else:
            operation, *arguments = graph.nodes[index]
            numbers = [known[a] if a >= 0 else graph.constants[~a] for a in arguments]
            known[index] = OPERATIONS[operation].value(*numbers)
    batch = np.broadcast_shapes(*(np.shape(v)[:-1] for v in values.values()))
    return {
        name: np.stack([np.broadcast_to(known[o.index] if isinstance(o, Scalar) else o, batch) for o in group], axis=-1)
        if group
        else np.zeros((*batch, 0))
        for name, group in program.outputs.items()
    }
