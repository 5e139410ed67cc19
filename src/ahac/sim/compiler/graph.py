"""Traced scalars: running plain Python on them once yields the graph of its computation.

A `Scalar` is a node of a `Graph`; Python floats are constants and never become nodes. Building a node folds constants,
moves signs outwards and shares common subexpressions, so the graph is already simplified when the trace ends.
The operations (value, code, derivative) are defined in `operations`.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from ahac.core.errors import TraceError
from ahac.sim.compiler.foreign import Traced, refuse_arrays

__all__ = ["Call", "Condition", "Graph", "Implicit", "Real", "Scalar"]


class Graph:
    """Nodes `(operation, argument, ...)` in the order of creation; arguments always precede their users.

    An argument `i >= 0` is a node; `i < 0` is the constant `constants[~i]`.
    """

    def __init__(self) -> None:
        self.nodes: list[tuple[Any, ...]] = []
        self.constants: list[float] = []
        self.implicit: dict[int, Implicit] = {}
        """System that each node of kind "implicit" belongs to."""
        self.calls: dict[int, Call] = {}
        """What each node of kind "call" computes; nodes of kind "pick" are its results."""
        self._call_numbers: dict[Call, int] = {}
        self._node_index: dict[tuple[Any, ...], int] = {}
        self._constant_index: dict[float, int] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def add(self, operation: str, *arguments: Real) -> Scalar:
        """Return the node for `operation(*arguments)`, creating it unless it exists."""
        return self._intern((operation, *map(self._argument_index, arguments)))

    def leaf(self, kind: str, name: object) -> Scalar:
        """Return the node without arguments of this kind and name, such as an input of the program."""
        return self._intern((kind, name))

    def solved(self, solution: Sequence[Real], transposed: Solve, residual: Residual) -> list[Scalar]:
        """Return nodes with the values of `solution`, differentiated as the unknowns of one `Implicit` system."""
        members = [self.add("implicit", value, float(len(self) + k)) for k, value in enumerate(solution)]
        system = Implicit([m.index for m in members], transposed, residual)
        self.implicit.update((m.index, system) for m in members)
        return members

    def call(self, call: Call, arguments: Sequence[Real], results: int) -> list[Scalar]:
        """Return the first `results` results of a call."""
        number = self._call_numbers.setdefault(call, len(self._call_numbers))
        node = self.add("call", float(number), *arguments)
        self.calls[node.index] = call
        return [self.add("pick", node, float(k)) for k in range(results)]

    def argument(self, index: int) -> Real:
        """Return the scalar or constant that an argument index refers to."""
        return Scalar(self, index) if index >= 0 else self.constants[~index]

    def _argument_index(self, argument: Real) -> int:
        if not isinstance(argument, Scalar):
            return self._constant(argument)
        if argument.graph is not self:
            raise TraceError(
                "a scalar of one trace was used in another; compute it from the world passed to your function"
            )
        return argument.index

    def _intern(self, node: tuple[Any, ...]) -> Scalar:
        index = self._node_index.get(node)
        if index is None:
            index = self._node_index[node] = len(self.nodes)
            self.nodes.append(node)
        return Scalar(self, index)

    def _constant(self, value: float) -> int:
        if not isinstance(value, numbers.Real) or value != value:
            raise TraceError(f"traced code works on scalars and numbers, got {type(value).__name__}: {value!r}")
        value = float(value)
        index = self._constant_index.get(value)
        if index is None:
            index = self._constant_index[value] = len(self.constants)
            self.constants.append(value)
        return ~index


@dataclass(frozen=True)
class Implicit:
    """Unknowns a that are defined by R(a, x) = 0 rather than by the computation that solved for them.

    An adjoint ā of the unknowns adds −∂(λ·R)/∂x to the adjoint of x, where λ = (∂R/∂a)⁻ᵀ ā, with λ and a held fixed.
    """

    members: list[int]
    """Nodes of the unknowns, in order."""
    transposed: Solve
    """Solver ā -> λ."""
    residual: Residual
    """Function λ, a -> λ·R(a, x)."""


class Call(Protocol):
    """A computation with several results that is one node of the graph (see `loops`)."""

    @property
    def operations(self) -> Mapping[str, int]:
        """How many operations of each kind it performs."""
        ...

    @property
    def repetitions(self) -> int:
        """How many times it repeats the same code."""
        ...

    def values(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """Return the results for numbers or numpy arrays."""
        ...

    def pullback(self, arguments: Sequence[Real], adjoints: Mapping[int, Real]) -> Sequence[Real]:
        """Return the adjoints of all arguments, given those of the results that have one."""
        ...


class Condition(Traced):
    """The traced condition `left < right`, or its opposite; only `where` can evaluate it."""

    __slots__ = ("left", "opposite", "right")

    def __init__(self, left: Real, right: Real, opposite: bool = False) -> None:
        refuse_arrays(left)
        refuse_arrays(right)
        self.left = left
        self.right = right
        self.opposite = opposite

    def __bool__(self) -> NoReturn:
        raise TraceError(
            "a traced comparison has no truth value, because one trace serves every world; "
            "write where(a < b, x, y) instead of if, minimum(a, b) and maximum(a, b) instead of min and max"
        )


class Scalar(Traced):
    """One number of one world, represented by how it is computed."""

    __slots__ = ("graph", "index")

    def __init__(self, graph: Graph, index: int) -> None:
        self.graph = graph
        self.index = index

    def __repr__(self) -> str:
        return f"Scalar({self.graph.nodes[self.index][0]} #{self.index})"

    def __add__(self, other: Real) -> Real:
        if not isinstance(other, Scalar):
            refuse_arrays(other)
            return self if other == 0.0 else self.graph.add("add", self, other)
        if (left := self._negated()) is not None:
            return -(left + right) if (right := other._negated()) is not None else other - left
        if (right := other._negated()) is not None:
            return self - right
        return self.graph.add("add", *((self, other) if self.index < other.index else (other, self)))

    __radd__ = __add__

    def __sub__(self, other: Real) -> Real:
        if not isinstance(other, Scalar):
            return self + -other
        if self.index == other.index:
            return 0.0
        if (right := other._negated()) is not None:
            return self + right
        if (left := self._negated()) is not None:
            return -(left + other)
        return self.graph.add("sub", self, other)

    def __rsub__(self, other: float) -> Real:
        refuse_arrays(other)
        if (right := self._negated()) is not None:
            return right + other
        return -self if other == 0.0 else self.graph.add("sub", other, self)

    def __mul__(self, other: Real) -> Real:
        if not isinstance(other, Scalar):
            return self._scaled(other)
        left, right = self._negated(), other._negated()
        if left is not None or right is not None:
            product = (self if left is None else left) * (other if right is None else right)
            return -product if (left is None) != (right is None) else product
        return self.graph.add("mul", *((self, other) if self.index < other.index else (other, self)))

    __rmul__ = __mul__

    def __truediv__(self, other: Real) -> Real:
        if isinstance(other, Scalar):
            return self * other._reciprocal()
        refuse_arrays(other)
        if other == 0.0:
            raise TraceError("a traced scalar is divided by the constant zero")
        return self * (1.0 / other)

    def __rtruediv__(self, other: float) -> Real:
        return other * self._reciprocal()

    def __pow__(self, exponent: float) -> Real:
        refuse_arrays(exponent)
        if isinstance(exponent, Scalar) or exponent not in range(1, 65):
            advice = "use sqrt" if not isinstance(exponent, Scalar) and exponent == 0.5 else "use exp and log"
            raise TraceError(
                f"a traced scalar can be raised to integer powers from 1 to 64, got {exponent!r}; {advice}"
            )
        exponent = int(exponent)
        half = self ** (exponent // 2) if exponent > 1 else 1.0
        return half * half * (self if exponent % 2 else 1.0)

    def __neg__(self) -> Real:
        operation, *arguments = self.graph.nodes[self.index]
        if operation == "neg":
            return self.graph.argument(arguments[0])
        if operation == "sub" and arguments[0] >= 0 and arguments[1] >= 0:
            return self.graph.add("sub", self.graph.argument(arguments[1]), self.graph.argument(arguments[0]))
        return self.graph.add("neg", self)

    def __abs__(self) -> Real:
        return self.graph.add("abs", self)

    def __lt__(self, other: Real) -> Condition:
        return Condition(self, other)

    def __gt__(self, other: Real) -> Condition:
        return Condition(other, self)

    def __le__(self, other: Real) -> Condition:
        return Condition(other, self, opposite=True)

    def __ge__(self, other: Real) -> Condition:
        return Condition(self, other, opposite=True)

    def __eq__(self, other: object) -> NoReturn:
        raise TraceError("traced scalars cannot be compared for equality; use <, <=, > or >= in where()")

    __ne__ = __eq__
    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        Condition(self, 0.0).__bool__()

    def _scaled(self, factor: float) -> Real:
        refuse_arrays(factor)
        if factor == 0.0:
            return 0.0
        if factor == 1.0:
            return self
        if factor == -1.0:
            return -self
        operation, *arguments = self.graph.nodes[self.index]
        if operation == "neg":
            return self.graph.argument(arguments[0]) * -factor
        if operation == "mul" and arguments[1] < 0:
            return self.graph.argument(arguments[0]) * (self.graph.constants[~arguments[1]] * factor)
        return self.graph.add("mul", self, factor)

    def _negated(self) -> Scalar | None:
        """Return x if this is -x, else None."""
        node = self.graph.nodes[self.index]
        return Scalar(self.graph, node[1]) if node[0] == "neg" else None

    def _reciprocal(self) -> Scalar:
        return self.graph.add("rcp", self)


Solve = Callable[[Sequence["Real"]], Sequence["Real"]]
Residual = Callable[[Sequence["Real"], Sequence["Real"]], "Real"]
Real = float | Scalar
"""A traced scalar, or a number that is constant when the program is traced."""
