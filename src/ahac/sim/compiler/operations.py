"""Every operation of the graph, said once: its value, its code on lanes, its derivative.

`Operation.pullbacks[k](d, y, *arguments)` is what the adjoint `d` of the result `y` adds to the adjoint of argument k.
The functions below (`sin`, `where`, ...) are what traced Python calls; on plain numbers they return plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ahac.core.errors import TraceError
from ahac.sim.compiler.graph import Condition, Graph, Real, Residual, Scalar, Solve

__all__ = [
    "OPERATIONS",
    "abs_",
    "atan2",
    "barrier",
    "clip",
    "cos",
    "exp",
    "implicit",
    "log",
    "maximum",
    "minimum",
    "sin",
    "sqrt",
    "stop_gradient",
    "tanh",
    "where",
]  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """One kind of node."""

    value: Callable[..., float]
    """On numbers and numpy arrays."""

    code: str
    """C++ expression on lanes, arguments as {0}, {1}, ..."""

    pullbacks: tuple[Callable[..., Real], ...] = ()
    """One rule per argument; none for an operation through which no derivative flows."""


def _unary(name: str, value: Callable[[float], float], x: Real) -> Real:
    return x.graph.add(name, x) if isinstance(x, Scalar) else float(value(x))


def sin(x: Real) -> Real:
    """Sine of an angle [rad]."""
    return _unary("sin", math.sin, x)


def cos(x: Real) -> Real:
    """Cosine of an angle [rad]."""
    return _unary("cos", math.cos, x)


def sqrt(x: Real) -> Real:
    """Square root; its derivative is infinite at zero, so add a small constant where zero can occur."""
    return _unary("sqrt", math.sqrt, x)


def exp(x: Real) -> Real:
    """Exponential."""
    return _unary("exp", math.exp, x)


def log(x: Real) -> Real:
    """Natural logarithm."""
    return _unary("log", math.log, x)


def tanh(x: Real) -> Real:
    """Hyperbolic tangent."""
    return _unary("tanh", math.tanh, x)


def abs_(x: Real) -> Real:
    """|x|, with derivative +1 at zero."""
    return _unary("abs", abs, x)


def stop_gradient(x: Real) -> Real:
    """The same value, held fixed: no derivative flows through it."""
    return x.graph.add("stop", x) if isinstance(x, Scalar) else x


def barrier(graph: Graph, x: Real) -> Scalar:
    """The same value as a node of its own, so that derivatives can be taken with respect to it."""
    return graph.add("mark", x, float(len(graph)))


def implicit(solution: Sequence[Real], transposed: Solve, residual: Residual) -> list[Real]:
    """Mark `solution` as solving a system of equations, to be differentiated by the implicit-function theorem.

    `transposed` and `residual` are called when a derivative is taken; see `graph.Implicit`.
    """
    graph = _graph_of(*solution)
    return list(solution) if graph is None else list(graph.solved(solution, transposed, residual))


def atan2(y: Real, x: Real) -> Real:
    """Angle [rad] of the point (x, y); its derivative is undefined at the origin."""
    graph = _graph_of(y, x)
    return graph.add("atan2", y, x) if graph else math.atan2(y, x)


def minimum(a: Real, b: Real) -> Real:
    """The smaller one; where they are equal the derivative goes to `a`."""
    graph = _graph_of(a, b)
    return graph.add("min", a, b) if graph else min(a, b)


def maximum(a: Real, b: Real) -> Real:
    """The larger one; where they are equal the derivative goes to `a`."""
    graph = _graph_of(a, b)
    return graph.add("max", a, b) if graph else max(a, b)


def clip(x: Real, low: float, high: float) -> Real:
    """`x` limited to [low, high]; the derivative is one up to and including the bounds."""
    return maximum(minimum(x, high), low)


def where(condition: Condition | bool, x: Real, y: Real) -> Real:
    """`x` in the worlds where the condition holds, `y` in the others."""
    if not isinstance(condition, Condition):
        if not isinstance(condition, bool | np.bool_):
            raise TraceError(f"where() needs a comparison such as a < b first, got {type(condition).__name__}")
        return x if condition else y
    if isinstance(x, Scalar) and isinstance(y, Scalar):
        same = x.index == y.index
    else:
        same = not isinstance(x, Scalar) and not isinstance(y, Scalar) and x == y
    if same:
        return x
    graph = _graph_of(condition.left, condition.right)
    assert graph is not None, "a Less always holds a traced scalar"
    return graph.add("less", condition.left, condition.right, *((y, x) if condition.opposite else (x, y)))


def _graph_of(*values: Real) -> Graph | None:
    return next((v.graph for v in values if isinstance(v, Scalar)), None)


OPERATIONS: dict[str, Operation] = {
    "add": Operation(np.add, "{0} + {1}", (lambda d, y, a, b: d, lambda d, y, a, b: d)),
    "sub": Operation(np.subtract, "{0} - {1}", (lambda d, y, a, b: d, lambda d, y, a, b: -d)),
    "mul": Operation(np.multiply, "{0} * {1}", (lambda d, y, a, b: d * b, lambda d, y, a, b: d * a)),
    "neg": Operation(np.negative, "-{0}", (lambda d, y, a: -d,)),
    "rcp": Operation(lambda a: 1.0 / a, "lane::rcp({0})", (lambda d, y, a: -(d * y * y),)),
    "sqrt": Operation(np.sqrt, "lane::sqrt({0})", (lambda d, y, a: d * (0.5 / y),)),
    "sin": Operation(np.sin, "lane::sin({0})", (lambda d, y, a: d * cos(a),)),
    "cos": Operation(np.cos, "lane::cos({0})", (lambda d, y, a: -(d * sin(a)),)),
    "exp": Operation(np.exp, "lane::exp({0})", (lambda d, y, a: d * y,)),
    "log": Operation(np.log, "lane::log({0})", (lambda d, y, a: d / a,)),
    "tanh": Operation(np.tanh, "lane::tanh({0})", (lambda d, y, a: d * (1.0 - y * y),)),
    "abs": Operation(np.abs, "lane::abs({0})", (lambda d, y, a: where(a < 0.0, -d, d),)),
    "atan2": Operation(
        np.arctan2,
        "lane::atan2({0}, {1})",
        (lambda d, y, a, b: d * b / (a * a + b * b), lambda d, y, a, b: -(d * a / (a * a + b * b))),
    ),
    "min": Operation(
        np.minimum,
        "lane::min({0}, {1})",
        (lambda d, y, a, b: _where_less(b, a, 0.0, d), lambda d, y, a, b: _where_less(b, a, d, 0.0)),
    ),
    "max": Operation(
        np.maximum,
        "lane::max({0}, {1})",
        (lambda d, y, a, b: _where_less(a, b, 0.0, d), lambda d, y, a, b: _where_less(a, b, d, 0.0)),
    ),
    "less": Operation(
        lambda a, b, x, y: np.where(np.less(a, b), x, y),
        "lane::less({0}, {1}, {2}, {3})",
        (
            lambda d, z, a, b, x, y: 0.0,
            lambda d, z, a, b, x, y: 0.0,
            lambda d, z, a, b, x, y: _where_less(a, b, d, 0.0),
            lambda d, z, a, b, x, y: _where_less(a, b, 0.0, d),
        ),
    ),
    "stop": Operation(lambda a: a, "{0}"),
    "mark": Operation(lambda a, serial: a, "{0}", (lambda d, y, a, serial: d, lambda d, y, a, serial: 0.0)),
    "implicit": Operation(lambda a, serial: a, "{0}"),
}


def _where_less(a: Real, b: Real, x: Real, y: Real) -> Real:
    """where(a < b, x, y) with at least one of a, b traced."""
    return where(Condition(a, b), x, y)
