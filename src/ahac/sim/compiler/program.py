"""Programs: traced functions with named groups of inputs and outputs, their adjoints, and their values in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ahac.core.errors import TraceError
from ahac.sim.compiler.derivative import pullback
from ahac.sim.compiler.graph import Graph, Real, Scalar
from ahac.sim.compiler.operations import OPERATIONS

__all__ = ["Program", "adjoint", "evaluate", "trace"]


@dataclass(frozen=True)
class Program:
    """A function of one world: groups of scalars in, groups of scalars out."""

    graph: Graph
    inputs: dict[str, list[Scalar]]
    outputs: dict[str, list[Real]]

    def live(self) -> list[int]:
        """The nodes that the outputs need, in an order in which they can be computed."""
        nodes = self.graph.nodes
        needed: set[int] = set()
        waiting = [o.index for group in self.outputs.values() for o in group if isinstance(o, Scalar)]
        while waiting:
            index = waiting.pop()
            if index not in needed:
                needed.add(index)
                if nodes[index][0] != "input":
                    waiting.extend(a for a in nodes[index][1:] if a >= 0)
        return sorted(needed)


def trace(function: Callable[..., Mapping[str, Sequence[Real]]], sizes: Mapping[str, int]) -> Program:
    """Run `function(name=[scalars], ...)` once, with `sizes[name]` traced scalars in each group, and keep what it did."""
    graph = Graph()
    inputs = {name: [graph.leaf("input", (name, i)) for i in range(size)] for name, size in sizes.items()}
    outputs = {name: list(group) for name, group in function(**inputs).items()}
    for name, group in outputs.items():
        for value in group:
            if not isinstance(value, Scalar | float | int):
                raise TraceError(f"output {name!r} must be a list of traced scalars, got {type(value).__name__} in it")
    return Program(graph, inputs, outputs)


def adjoint(program: Program, wrt: Sequence[str]) -> Program:
    """The transposed derivative: takes the inputs and `<output>_bar`, returns `<input>_bar` for the groups in `wrt`.

    Grows the program's own graph, so that value and derivative share their common parts.
    """
    graph = program.graph
    bars = {f"{name}_bar": [graph.leaf("input", (f"{name}_bar", i)) for i in range(len(group))]
            for name, group in program.outputs.items()}  # fmt: skip
    seeds = [pair for name, group in program.outputs.items() for pair in zip(group, bars[f"{name}_bar"], strict=True)]
    flat = [scalar for name in wrt for scalar in program.inputs[name]]
    gradients = iter(pullback(graph, seeds, flat))
    outputs = {f"{name}_bar": [next(gradients) for _ in program.inputs[name]] for name in wrt}
    return Program(graph, {**program.inputs, **bars}, outputs)


def evaluate(program: Program, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs [..., size] for inputs [..., size], node by node in numpy: slow, but nothing needs compiling."""
    graph = program.graph
    known: dict[int, np.ndarray | float] = {}
    for index in program.live():
        operation, *arguments = graph.nodes[index]
        if operation == "input":
            name, position = arguments[0]
            known[index] = np.asarray(values[name], dtype=np.float64)[..., position]
        else:
            numbers = [known[a] if a >= 0 else graph.constants[~a] for a in arguments]
            known[index] = OPERATIONS[operation].value(*numbers)
    batch = np.broadcast_shapes(*(np.shape(v)[:-1] for v in values.values()))
    return {
        name: np.stack([np.broadcast_to(known[o.index] if isinstance(o, Scalar) else o, batch) for o in group], axis=-1)
        if group
        else np.zeros((*batch, 0))
        for name, group in program.outputs.items()
    }
