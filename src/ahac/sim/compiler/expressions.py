"""C++ expressions of single nodes: node `i` is the variable `t<i>`, and constants are literals."""

from __future__ import annotations

import math

from ahac.sim.compiler.graph import Graph, Real, Scalar
from ahac.sim.compiler.operations import OPERATIONS

__all__ = ["expression", "number", "term"]


def expression(graph: Graph, index: int) -> str:
    """Return the expression of a node's value."""
    operation, *arguments = graph.nodes[index]
    return OPERATIONS[operation].code.format(*(term(graph.argument(a)) for a in arguments))


def term(value: Real) -> str:
    """Return the variable of a node, or the literal of a constant."""
    return f"t{value.index}" if isinstance(value, Scalar) else f"lane::k({number(value)})"


def number(value: float) -> str:
    """Return the literal of a number of one lane."""
    # C++ has no literal for infinity, but a product that overflows yields one.
    digits = repr(float(value)) if math.isfinite(value) else f"{math.copysign(1.0, value)} * 1e300 * 1e300"
    return f"real({digits})"
