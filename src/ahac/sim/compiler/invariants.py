"""Split a program that runs once per substep: what does not change between substeps is computed once.

    w = before(fixed inputs)
    for each substep: outputs, sums += inside(inputs, w)
    sums = after(fixed inputs, w, sums)

An output that is added up over the substeps may end in operations that are linear in one number, with coefficients that
are fixed, e.g. the derivative of a clipped control. They are applied to the sum instead of to every term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.program import Program

__all__ = ["FIXED", "SplitProgram", "split", "sum_of"]

FIXED = "w"
"""Group of the numbers that do not change between substeps."""


@dataclass(frozen=True)
class SplitProgram:
    """A program in three parts."""

    before: Program
    """Fixed inputs -> `FIXED`."""
    inside: Program
    """What remains to be computed in every substep."""
    after: Program
    """Sums over all substeps -> the outputs that they stand for."""


def split(program: Program, fixed: Sequence[str], added: Sequence[str]) -> SplitProgram:
    """Split a program whose inputs `fixed` are the same, and whose outputs `added` are summed up, in all substeps."""
    graph, live = program.graph, program.live()
    changing: set[int] = set()
    for index in live:
        source = program.source(index)
        if source is not None:
            changes = source[0] not in fixed
        else:
            changes = index in graph.calls or any(a in changing for a in graph.nodes[index][1:])
        if changes:
            changing.add(index)
    sums = {name: [_summand(program, x, changing) for x in program.outputs[name]] for name in added}
    remaining = Program(graph, program.inputs, {**program.outputs, **sums}, program.given)
    used = {a for i in remaining.live() if i in changing and program.source(i) is None for a in graph.nodes[i][1:]}
    used |= {x.index for group in remaining.outputs.values() for x in group if isinstance(x, Scalar)}
    kept = sorted(i for i in used if i >= 0 and i not in changing and program.source(i) is None)
    given = {**program.given, **{index: (FIXED, k) for k, index in enumerate(kept)}}
    inside = Program(graph, program.inputs, remaining.outputs, dict(given))
    totals = {sum_of(name): [graph.leaf("input", (sum_of(name), k)) for k in range(len(sums[name]))] for name in added}
    results: dict[str, list[Real]] = {}
    for name in added:
        results[name] = list(program.outputs[name])
        for k, (summand, output) in enumerate(zip(sums[name], program.outputs[name], strict=True)):
            if summand is output:
                results[name][k] = totals[sum_of(name)][k]
            elif isinstance(summand, Scalar):
                given[summand.index] = (sum_of(name), k)
    return SplitProgram(
        before=Program(graph, program.inputs, {FIXED: [graph.argument(index) for index in kept]}, program.given),
        inside=inside,
        after=Program(graph, {**program.inputs, **totals}, results, given),
    )


def sum_of(name: str) -> str:
    """Return the name of the group of sums that an output stands for."""
    return f"sum of {name}"


def _summand(program: Program, output: Real, changing: set[int]) -> Real:
    """Return the number that an output is linear in, with fixed coefficients; the output itself in general."""
    graph = program.graph
    while isinstance(output, Scalar) and output.index in changing and program.source(output.index) is None:
        operation, *arguments = graph.nodes[output.index]
        changed = [a for a in arguments if a in changing]
        others = [graph.argument(a) for a in arguments if a not in changing]
        linear = operation in ("mul", "neg") or (
            operation == "less" and not {*arguments[:2]} & changing and _is_zero(others[-1])
        )
        if len(changed) != 1 or not linear or program.source(changed[0]) is not None:
            break
        output = graph.argument(changed[0])
    return output


def _is_zero(x: Real) -> bool:
    return not isinstance(x, Scalar) and x == 0.0
