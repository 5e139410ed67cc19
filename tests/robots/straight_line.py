"""Traced programs as straight-line Python on floats: for one world, much faster than node by node in numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from ahac.sim.compiler.graph import Call, Scalar
from ahac.sim.compiler.loops import RowCall, RowFunction
from ahac.sim.compiler.program import Program

__all__ = ["Evaluator"]

CHUNK = 1000
"""Statements per function: Python compiles many short functions faster than one long one."""
EXPRESSIONS = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "neg": "-{0}",
    "rcp": "1.0 / {0}",
    "min": "({0} if {0} <= {1} else {1})",
    "max": "({0} if {0} >= {1} else {1})",
    "less": "({2} if {0} < {1} else {3})",
    "stop": "{0}",
    "mark": "{0}",
    "implicit": "{0}",
}
"""Python expressions of the operations; the others are functions of the module math."""
MATH = {"abs": "fabs"}


class Evaluator:
    """Evaluates a program for one world; raises FloatingPointError for a result that is not finite."""

    def __init__(self, program: Program) -> None:
        self._inputs: list[tuple[int, str, int]] = []
        lines: list[str] = []
        calls: dict[int, Callable[..., list[float]]] = {}
        live = program.live()
        for index in live:
            if (source := program.source(index)) is not None:
                self._inputs.append((index, *source))
                continue
            operation, *arguments = program.graph.nodes[index]
            if index in program.graph.calls:
                calls[index] = _Rows(program.graph.calls[index])
            numbers = [f"x[{a}]" if a >= 0 else f"({program.graph.constants[~a]!r})" for a in arguments]
            lines.append(f" x[{index}] = {_expression(operation, index, numbers)}")
        self.operations = program.operations()
        self._size = max(live, default=0) + 1
        self._chunks = [_compiled(lines[k : k + CHUNK], calls) for k in range(0, len(lines), CHUNK)]
        self._outputs = {
            name: [(o.index, 0.0) if isinstance(o, Scalar) else (-1, float(o)) for o in group]
            for name, group in program.outputs.items()
        }

    def __call__(self, values: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
        """Return the outputs for the given inputs."""
        try:
            outputs = self.values(values)
        except (OverflowError, ZeroDivisionError, ValueError) as error:
            raise FloatingPointError(str(error)) from None
        if not all(math.isfinite(number) for group in outputs.values() for number in group):
            raise FloatingPointError("the result is not finite")
        return outputs

    def values(self, values: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
        """Return the outputs for the given inputs, without checks."""
        x = [0.0] * self._size
        for index, group, position in self._inputs:
            x[index] = values[group][position]
        for chunk in self._chunks:
            chunk(x)
        return {name: [x[i] if i >= 0 else c for i, c in group] for name, group in self._outputs.items()}


class _Rows:
    """Evaluates a loop over rows."""

    def __init__(self, call: Call) -> None:
        assert isinstance(call, RowCall), "the only kind of call"
        function = call.function
        self.evaluate = _row_evaluator(function)
        num_arguments, _, num_varying = function.sizes
        self.arguments = [(i, k) for k, i in enumerate(function.arguments)]
        self.rows = call.rows
        self.sizes = (num_arguments, num_varying)
        self.varying = function.varying

    def __call__(self, *passed: float) -> list[float]:
        """Return the sums, then the results per row."""
        num_arguments, num_varying = self.sizes
        shared = [0.0] * num_arguments
        for i, k in self.arguments:
            shared[i] = passed[k]
        rest = iter(passed[len(self.arguments) :])
        sums: list[float] = []
        each: list[float] = []
        for row in self.rows:
            varying = [0.0] * num_varying
            for i in self.varying:
                varying[i] = next(rest)
            found = self.evaluate.values({"arguments": shared, "row": row, "varying": varying})
            sums = [a + b for a, b in zip(sums, found["sums"], strict=True)] if sums else found["sums"]
            each += found["each"]
        return sums + each


@cache
def _row_evaluator(function: RowFunction) -> Evaluator:
    return Evaluator(function.program)


def _expression(operation: str, index: int, arguments: Sequence[str]) -> str:
    if operation == "call":
        return f"calls[{index}]({', '.join(arguments[1:])})"
    if operation == "pick":
        return f"{arguments[0]}[int({arguments[1]})]"
    form = EXPRESSIONS.get(operation)
    return form.format(*arguments) if form else f"{MATH.get(operation, operation)}({', '.join(arguments)})"


def _compiled(lines: Sequence[str], calls: Mapping[int, Callable[..., list[float]]]) -> Callable[[list[float]], None]:
    names: dict[str, Any] = {**vars(math), "calls": calls}
    exec("\n".join(["def run(x):", *lines]), names)
    return names["run"]
