"""Write loops over rows: one C++ function per row function, one table of constants per kernel, and calls.

    void rows_0(const T* a, const T* x, T* s, T* y, const real* row, int count)

with the arguments `a`, the varying numbers `x` and the results `y` of each row, the sums `s`, and `count` rows of the
table.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ahac.sim.compiler.expressions import expression, number, term
from ahac.sim.compiler.graph import Graph
from ahac.sim.compiler.loops import RowCall, RowFunction, Rows
from ahac.sim.compiler.program import Program

__all__ = ["LoopWriter", "fast_expression"]

MAX_CONSTANT_BYTES = 2**15
"""Largest table in CUDA's constant memory, which is fast if all threads read the same row, but limited to 64 KiB."""

DEFINITIONS = """\
#if defined(__CUDA_ARCH__) || defined(__CUDACC__)
#define ROW_FUNCTION static __device__ __forceinline__
#define ROW_TABLE static {space}
#else
#define ROW_FUNCTION static __attribute__((noinline))
#define ROW_TABLE static
#endif
#if defined(__CUDA_ARCH__) && !WIDE_REAL
#define APPROXIMATE(f) \\
    static __device__ __forceinline__ T fast_##f(T a) {{ \\
        T y; \\
        asm(#f ".approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a)); \\
        return y; \\
    }}
APPROXIMATE(rcp)
APPROXIMATE(sqrt)
#else
#define fast_rcp lane::rcp
#define fast_sqrt lane::sqrt
#endif
"""
"""On CUDA a call is inlined: passing its numbers through local memory and saving registers would take as many
instructions as the body."""

APPROXIMATE = ("rcp", "sqrt")
"""Operations with an error of one unit in the last place in programs with loops, in float32 on CUDA.

The exact ones branch, which keeps the compiler from reordering instructions. Programs without loops use these, so that
their results stay the same to the bit."""


@dataclass
class LoopWriter:
    """Collects the row functions that one kernel calls, and their rows."""

    _names: dict[RowFunction, str] = field(default_factory=dict)
    _picked: dict[RowFunction, set[int]] = field(default_factory=dict)
    """Distinct results of each function that some call uses: sums, then results per row."""
    _offsets: dict[Rows, int] = field(default_factory=dict)
    """Position of the first number of each block of rows in the table."""
    _table: list[float] = field(default_factory=list)

    def call(self, program: Program, index: int) -> list[str]:
        """Return the statements of a call, which compute the nodes picked from it."""
        graph = program.graph
        call = graph.calls[index]
        assert isinstance(call, RowCall)
        function, rows = call.function, call.rows
        picks = program.picks[index]
        name = self._names.setdefault(function, f"rows_{len(self._names)}")
        outputs = function.program.outputs
        num_sums, num_each = len(outputs["sums"]), len(outputs["each"])
        picked = self._picked.setdefault(function, set())
        results: list[str] = []
        for pick, k in picks.items():
            picked.add(k if k < num_sums else num_sums + (k - num_sums) % num_each)
            results.append(f"t{pick} = s[{k}];" if k < num_sums else f"t{pick} = y[{k - num_sums}];")
        if rows not in self._offsets:
            self._offsets[rows] = len(self._table)
            self._table += [x for row in rows for x in row]
        terms = [term(graph.argument(a)) for a in graph.nodes[index][2:]]
        shared, varying = terms[: len(function.arguments)], terms[len(function.arguments) :]
        groups = [f"T {name}[] = {{{', '.join(group)}}};" for name, group in (("a", shared), ("x", varying)) if group]
        groups += [f"T {name}[{n}];" for name, n in (("s", num_sums), ("y", num_each * len(rows))) if n]
        passed = [f"table() + {self._offsets[rows]}", str(len(rows))]
        return [
            f"T {', '.join(f't{pick}' for pick in picks)};",
            f"{{ {' '.join(groups)} {name}({', '.join([*_parameters(function), *passed])});",
            *results,
            "}",
        ]

    def functions(self) -> str:
        """Return the definitions that precede the kernel's body; empty if it contains no loop."""
        if not self._names:
            return ""
        space = "__constant__" if 8 * len(self._table) <= MAX_CONSTANT_BYTES else "__device__"
        numbers = ", ".join(number(x) for x in self._table) or "0"
        lines = [
            DEFINITIONS.format(space=space),
            f"ROW_FUNCTION const real* table() {{ ROW_TABLE const real numbers[] = {{{numbers}}}; return numbers; }}",
        ]
        for function, name in self._names.items():
            lines += _definition(function, name, self._picked[function])
        return "\n" + "\n".join(lines)


def fast_expression(graph: Graph, index: int) -> str:
    """Return the expression of a node's value in a program with loops."""
    operation, *arguments = graph.nodes[index]
    if operation in APPROXIMATE:
        return f"fast_{operation}({term(graph.argument(arguments[0]))})"
    return expression(graph, index)


def _parameters(function: RowFunction) -> list[str]:
    """Return the names of the arrays that a function takes."""
    outputs = function.program.outputs
    present = {"a": function.arguments, "x": function.varying, "s": outputs["sums"], "y": outputs["each"]}
    return [name for name, group in present.items() if group]


def _definition(function: RowFunction, name: str, picked: set[int]) -> list[str]:
    """Return the C++ function that computes the picked results."""
    outputs = function.program.outputs
    num_sums, num_each = len(outputs["sums"]), len(outputs["each"])
    sums = {k: outputs["sums"][k] for k in range(num_sums) if k in picked}
    each = {k: outputs["each"][k] for k in range(num_each) if num_sums + k in picked}
    program = Program(function.program.graph, function.program.inputs, {"": [*sums.values(), *each.values()]})
    before: list[str] = []
    inside: list[str] = []
    for index in program.live():
        group, position = program.source(index) or ("", 0)
        if group == "arguments":
            before.append(f"const T t{index} = a[{function.arguments.index(position)}];")
        elif group == "row":
            inside.append(f"const T t{index} = lane::k(row[{position}]);")
        elif group == "varying":
            width = len(function.varying)
            inside.append(f"const T t{index} = x[i * {width} + {function.varying.index(position)}];")
        else:
            inside.append(f"const T t{index} = {fast_expression(program.graph, index)};")
    row_size = len(program.inputs["row"])
    types = {"a": "const T* a", "x": "const T* x", "s": "T* s", "y": "T* y"}
    parameters = [*(types[p] for p in _parameters(function)), "const real* row", "int count"]
    return [
        f"ROW_FUNCTION void {name}({', '.join(parameters)}) {{",
        *before,
        *(f"T s{k} = {{}};" for k in sums),
        f'_Pragma("unroll 1") for (int i = 0; i < count; ++i, row += {row_size}) {{',
        *inside,
        *(f"s{k} += {term(x)};" for k, x in sums.items()),
        *(f"y[i * {num_each} + {k}] = {term(x)};" for k, x in each.items()),
        "}",
        *(f"s[{k}] = s{k};" for k in sums),
        "}",
    ]
