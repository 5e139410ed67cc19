"""Reverse-mode differentiation of the graph: adjoints are new nodes.

The result is traced code like any other: it is simplified, shared, compiled, and can be differentiated again.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from ahac.sim.compiler.graph import Graph, Real, Scalar
from ahac.sim.compiler.operations import OPERATIONS, barrier

__all__ = ["pullback"]


def pullback(graph: Graph, seeds: Iterable[tuple[Real, Real]], wrt: Sequence[Scalar]) -> list[Real]:
    """Return the adjoints of `wrt` for seeds `(node, adjoint)`: Σ adjoint · ∂node/∂wrt.

    Members of `wrt` count as independent of each other: a path ends at the first one it reaches.
    """
    return _Sweep(graph, wrt).run(seeds)


class _Sweep:
    """One backward pass over the graph, from the last node to the first."""

    def __init__(self, graph: Graph, wrt: Sequence[Scalar]) -> None:
        self.graph = graph
        self.wrt = wrt
        self.targets = {w.index for w in wrt}
        self.frozen: set[int] = set()
        self.pending: dict[int, Real] = {}
        self.queue: list[int] = []
        self.depends: list[bool] = []
        self.picked: dict[int, dict[int, Real]] = {}
        """Adjoints of the results of each pending call."""

    def run(self, seeds: Iterable[tuple[Real, Real]]) -> list[Real]:
        """Return the adjoints of `wrt`."""
        for node, adjoint in seeds:
            if isinstance(node, Scalar):
                self.accumulate(node.index, adjoint)
        reached: dict[int, Real] = {}
        while self.queue:
            index = -heapq.heappop(self.queue)
            if index not in self.pending:
                continue  # already handled with another unknown of its system
            adjoint = self.pending.pop(index)
            if index in self.targets:
                reached[index] = reached.get(index, 0.0) + adjoint
            elif index in self.graph.implicit:
                self.propagate_implicit(index, adjoint)
            elif index in self.graph.calls:
                self.propagate_call(index)
            elif self.graph.nodes[index][0] == "pick":
                self.propagate_pick(index, adjoint)
            else:
                self.propagate(index, adjoint)
        return [reached.get(w.index, 0.0) for w in self.wrt]

    def accumulate(self, index: int, adjoint: Real) -> None:
        """Add to a node's adjoint, unless the node does not depend on `wrt`."""
        if not isinstance(adjoint, Scalar) and adjoint == 0.0:
            return
        if index in self.pending:
            self.pending[index] = self.pending[index] + adjoint
        elif self.relevant(index):
            self.pending[index] = adjoint
            heapq.heappush(self.queue, -index)

    def propagate(self, index: int, adjoint: Real) -> None:
        """Propagate a node's adjoint to its arguments."""
        operation, *arguments = self.graph.nodes[index]
        values = [self.graph.argument(a) for a in arguments]
        result = Scalar(self.graph, index)
        for argument, rule in zip(arguments, OPERATIONS[operation].pullbacks, strict=False):
            if argument >= 0 and self.relevant(argument):
                self.accumulate(argument, rule(adjoint, result, *values))

    def propagate_implicit(self, index: int, adjoint: Real) -> None:
        """Propagate the adjoints of all unknowns of a system to the nodes that the system depends on."""
        system = self.graph.implicit[index]
        adjoints = [adjoint if m == index else self.pending.pop(m, 0.0) for m in system.members]
        # New nodes for λ and a that are constant in this pass, but that later derivatives can pass through.
        multiplier = [self.fixed(x) for x in system.transposed(adjoints)]
        unknowns = [self.fixed(Scalar(self.graph, m)) for m in system.members]
        residual = system.residual(multiplier, unknowns)
        if isinstance(residual, Scalar):
            self.accumulate(residual.index, -1.0)

    def propagate_pick(self, index: int, adjoint: Real) -> None:
        """Keep the adjoint of a result until those of all results of its call are known."""
        call, k = self.graph.nodes[index][1:]
        if call not in self.picked:
            self.picked[call] = {}
            self.pending[call] = 0.0
            heapq.heappush(self.queue, -call)
        self.picked[call][int(self.graph.constants[~k])] = adjoint

    def propagate_call(self, index: int) -> None:
        """Propagate the adjoints of a call's results to its arguments."""
        arguments = self.graph.nodes[index][2:]
        values = [self.graph.argument(a) for a in arguments]
        adjoints = self.graph.calls[index].pullback(values, self.picked.pop(index))
        for argument, adjoint in zip(arguments, adjoints, strict=True):
            if argument >= 0 and self.relevant(argument):
                self.accumulate(argument, adjoint)

    def fixed(self, x: Real) -> Scalar:
        """Return a node with the value of `x` that is constant in this pass."""
        node = barrier(self.graph, x)
        self.frozen.add(node.index)
        return node

    def relevant(self, index: int) -> bool:
        """Return whether a node depends on `wrt`; first extends the table to nodes created since the last call."""
        for i in range(len(self.depends), len(self.graph)):
            operation, *arguments = self.graph.nodes[i]
            leaf = operation in ("input", "stop") or i in self.frozen
            through_arguments = not leaf and any(a >= 0 and self.depends[a] for a in arguments)
            self.depends.append(through_arguments or i in self.targets)
        return self.depends[index]
