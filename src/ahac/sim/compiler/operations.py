"""The operations of the graph, with value, C++ code and derivative.

`Operation.pullbacks[k](d, y, *arguments)` is the contribution of the adjoint `d` of the result `y` to the
adjoint of argument k.
Traced Python calls the functions below (`sin`, `where`, ...); on plain numbers they return plain numbers.
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
    "nonzero",
    "sin",
    "sqrt",
    "stop_gradient",
    "tanh",
    "where",
]


@dataclass(frozen=True)
class Operation:
    """One kind of node."""

    value: Callable[..., float]
    """Value on numbers and numpy arrays."""

    code: str
    """C++ expression on lanes, arguments as {0}, {1}, ..."""

    pullbacks: tuple[Callable[..., Real], ...] = ()
    """One rule per argument; empty for an operation that blocks derivatives."""


def _unary(name: str, value: Callable[[float], float], x: Real) -> Real:
    return x.graph.add(name, x) if isinstance(x, Scalar) else float(value(x))


def sin(x: Real) -> Real:
    """Return the sine of an angle [rad]."""
    return _unary("sin", math.sin, x)


def cos(x: Real) -> Real:
    """Return the cosine of an angle [rad]."""
    return _unary("cos", math.cos, x)


def sqrt(x: Real) -> Real:
    """Return the square root; its derivative is infinite at zero, so add a small constant where zero can occur."""
    return _unary("sqrt", math.sqrt, x)


def exp(x: Real) -> Real:
    """Return the exponential."""
    return _unary("exp", math.exp, x)


def log(x: Real) -> Real:
    """Return the natural logarithm."""
    return _unary("log", math.log, x)


def tanh(x: Real) -> Real:
    """Return the hyperbolic tangent."""
    return _unary("tanh", math.tanh, x)


def abs_(x: Real) -> Real:
    """Return |x|, with derivative +1 at zero."""
    return _unary("abs", abs, x)


def stop_gradient(x: Real) -> Real:
    """Return the same value as a constant: no derivative flows through it."""
    return x.graph.add("stop", x) if isinstance(x, Scalar) else x


def barrier(graph: Graph, x: Real) -> Scalar:
    """Return the same value as a separate node, so that derivatives can be taken with respect to it."""
    return graph.add("mark", x, float(len(graph)))


def implicit(solution: Sequence[Real], transposed: Solve, residual: Residual) -> list[Real]:
    """Mark `solution` as the solution of a system of equations, differentiated by the implicit function theorem.

    `transposed` and `residual` are called when a derivative is taken; see `graph.Implicit`.
    """
    graph = _graph_of(*solution)
    return list(solution) if graph is None else list(graph.solved(solution, transposed, residual))


def atan2(y: Real, x: Real) -> Real:
    """Return the angle [rad] of the point (x, y); its derivative is undefined at the origin."""
    graph = _graph_of(y, x)
    return graph.add("atan2", y, x) if graph else math.atan2(y, x)


def nonzero(x: Real) -> bool:
    """Return whether a number is not the constant zero; a traced scalar may always differ from zero."""
    return isinstance(x, Scalar) or bool(x)


def minimum(a: Real, b: Real) -> Real:
    """Return the smaller value; if both are equal, the derivative flows to `a`."""
    graph = _graph_of(a, b)
    return graph.add("min", a, b) if graph else min(a, b)


def maximum(a: Real, b: Real) -> Real:
    """Return the larger value; if both are equal, the derivative flows to `a`."""
    graph = _graph_of(a, b)
    return graph.add("max", a, b) if graph else max(a, b)


def clip(x: Real, low: Real, high: Real) -> Real:
    """Clip `x` to [low, high]; the derivative is one up to and including the bounds."""
    return maximum(minimum(x, high), low)


def where(condition: Condition | bool, x: Real, y: Real) -> Real:
    """Return `x` in worlds where the condition holds and `y` in the others."""
    if not isinstance(condition, Condition):
        if not isinstance(condition, bool | np.bool_):
            raise TraceError(
                f"the first argument of where() must be a comparison such as a < b, got {type(condition).__name__}"
            )
        return x if condition else y
    if isinstance(x, Scalar) and isinstance(y, Scalar):
        same = x.index == y.index
    else:
        same = not isinstance(x, Scalar) and not isinstance(y, Scalar) and x == y
    if same:
        return x
    graph = _graph_of(condition.left, condition.right)
    assert graph is not None, "a Condition always contains a traced scalar"
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
    """Return where(a < b, x, y) with at least one of a, b traced."""
    return where(Condition(a, b), x, y)
