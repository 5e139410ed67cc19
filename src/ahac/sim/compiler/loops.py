"""Sums over rows of constants, computed by a loop: code and compile time do not grow with the number of rows.

    outputs[j] = Σ_r body(arguments, rows[r])[j]

A `RowFunction` is traced once, into a program of its own, and can be called with any arguments and rows. A call is one
node of the caller's graph, and its results are picked from it. Its adjoint is a call of another row function over the
same rows: arguments and adjoints of the results -> adjoints of the arguments. So derivatives of any order are loops.

Numbers that are traced, but differ from row to row, are passed as `varying`. Their adjoints are results per row instead
of sums, so in general a row function has both kinds of results.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ahac.core.errors import TraceError
from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.program import Program, evaluate, trace
from ahac.sim.compiler.reverse_mode import pullback

__all__ = ["RowCall", "RowFunction", "sum_over_rows"]

CHUNK_OPERATIONS = 1200
"""Operations of one call; longer loops are divided, so that several CUDA threads can share them."""

Rows = tuple[tuple[float, ...], ...]
Body = Callable[[list[Real], list[Real], list[Real]], tuple[Sequence[Real], Sequence[Real]]]
"""Function arguments, row, varying -> terms of the sums, results per row."""


def sum_over_rows(
    function: RowFunction,
    arguments: Sequence[Real],
    rows: Sequence[Sequence[float]],
    varying: Sequence[Sequence[Real]] | None = None,
    chunk: int | None = None,
) -> list[Real]:
    """Return the outputs of a row function, each summed over all rows.

    Args:
        function: Function of the arguments, a row and the varying numbers of that row.
        arguments: Scalars that all rows share.
        rows: Constants of each row.
        varying: Scalars of each row; may be omitted if the function takes none.
        chunk: Maximum number of rows per call. By default, a call takes about `CHUNK_OPERATIONS` operations.
    """
    if varying is None:
        varying = [()] * len(rows)
    function.check(arguments, rows, varying)
    chunk = chunk or max(1, CHUNK_OPERATIONS // max(1, function.operations.total()))
    calls = -(-len(rows) // chunk)
    total: list[Real] = [0.0] * function.num_outputs
    for k in range(calls):
        part = slice(k * len(rows) // calls, (k + 1) * len(rows) // calls)
        table = tuple(tuple(map(float, row)) for row in rows[part])
        sums, _ = function.call(arguments, table, varying[part])
        total = [a + b for a, b in zip(total, sums, strict=True)]
    return total


class RowFunction:
    """A function whose results are summed over rows of constants.

    Args:
        body: Function `body(arguments, row)` that returns a list of scalars, or `body(arguments, row, varying)` if the
            function takes varying numbers. It must compute everything from these lists and constants.
        num_arguments: Number of scalars that all rows share.
        row_size: Number of constants per row.
        num_varying: Number of traced scalars per row.
    """

    def __init__(
        self, body: Callable[..., Sequence[Real]], num_arguments: int, row_size: int, num_varying: int = 0
    ) -> None:
        def sums_only(arguments: list[Real], row: list[Real], varying: list[Real]) -> tuple[Sequence[Real], list[Real]]:
            return body(arguments, row, varying) if num_varying else body(arguments, row), []

        self._trace(sums_only, num_arguments, row_size, num_varying)

    def _trace(self, body: Body, num_arguments: int, row_size: int, num_varying: int) -> None:
        self._body = body
        self.sizes = (num_arguments, row_size, num_varying)
        """Numbers of arguments, of constants per row, and of varying numbers per row."""
        self._adjoints: dict[tuple[tuple[int, ...], tuple[int, ...]], RowFunction] = {}

        def results(arguments: list[Scalar], row: list[Scalar], varying: list[Scalar]) -> dict[str, Sequence[Real]]:
            sums, each = body(list(arguments), list(row), list(varying))
            return {"sums": sums, "each": each}

        sizes = {"arguments": num_arguments, "row": row_size, "varying": num_varying}
        traced = trace(results, sizes)
        if traced.graph.calls:
            raise TraceError("a row function cannot call another one; compute the inner sum first and pass its results")
        self._sums, sums = _distinct(traced.outputs["sums"])
        self._each, each = _distinct(traced.outputs["each"])
        self.program = Program(traced.graph, traced.inputs, {"sums": sums, "each": each})
        """The body: groups `arguments`, `row` and `varying` -> distinct terms `sums` and results per row `each`."""
        live = self.program.live()
        self.operations = Counter(traced.graph.nodes[i][0] for i in live if self.program.source(i) is None)
        """Number of operations of each kind per row."""
        used = {self.program.source(i) for i in live}
        self.arguments = [i for i in range(num_arguments) if ("arguments", i) in used]
        """Arguments that the results depend on; only these are passed."""
        self.varying = [i for i in range(num_varying) if ("varying", i) in used]
        """Varying numbers that the results depend on."""

    @property
    def num_outputs(self) -> int:
        """Number of sums."""
        return len(self._sums)

    def check(
        self, arguments: Sequence[Real], rows: Sequence[Sequence[float]], varying: Sequence[Sequence[Real]]
    ) -> None:
        """Raise TraceError if a call does not fit the function."""
        num_arguments, row_size, num_varying = self.sizes
        wrong = [f"{len(arguments)} arguments instead of {num_arguments}"] if len(arguments) != num_arguments else []
        wrong += [f"row {i} has {len(r)} numbers, not {row_size}" for i, r in enumerate(rows) if len(r) != row_size]
        wrong += [f"row {i} contains {x!r}" for i, r in enumerate(rows) for x in r if not math.isfinite(x)]
        if len(varying) != len(rows):
            wrong.append(f"{len(varying)} rows of varying scalars for {len(rows)} rows of constants")
        wrong += [
            f"row {i} has {len(x)} varying scalars, not {num_varying}"
            for i, x in enumerate(varying)
            if len(x) != num_varying
        ]
        if wrong:
            raise TraceError(f"this sum over rows does not fit its function: {wrong[0]}")

    def call(
        self, arguments: Sequence[Real], rows: Rows, varying: Sequence[Sequence[Real]]
    ) -> tuple[list[Real], list[list[Real]]]:
        """Call the function on rows of constants; return the sums, and for each row its results."""
        passed = [arguments[i] for i in self.arguments] + [x[i] for x in varying for i in self.varying]
        call = RowCall(self, rows)
        sums, each = len(self.program.outputs["sums"]), len(self.program.outputs["each"])
        graph = next((x.graph for x in passed if isinstance(x, Scalar)), None)
        picks: list[Real]
        if graph is None:
            picks = [float(x) for x in call.values(passed)]
        else:
            picks = list(graph.call(call, passed, sums + each * len(rows)))
        per_row = [picks[sums + r * each : sums + (r + 1) * each] for r in range(len(rows))]
        return (
            [output.of(picks, len(rows)) for output in self._sums],
            [[output.of(results, 1) for output in self._each] for results in per_row],
        )

    def adjoint(self, sums: tuple[int, ...], each: tuple[int, ...]) -> RowFunction:
        """Return the function that maps adjoints of some results to those of `arguments` and `varying`.

        Its arguments are those of this function, then one adjoint for each of `sums`. Its varying numbers are those of
        this function, then one adjoint for each of `each`.
        """
        key = (sums, each)
        if key not in self._adjoints:
            self._adjoints[key] = self._derive(sums, each)
        return self._adjoints[key]

    def _derive(self, sums: tuple[int, ...], each: tuple[int, ...]) -> RowFunction:
        num_arguments, row_size, num_varying = self.sizes

        def body(arguments: list[Real], row: list[Real], varying: list[Real]) -> tuple[list[Real], list[Real]]:
            inputs, seeds = arguments[:num_arguments], arguments[num_arguments:]
            own, more_seeds = varying[:num_varying], varying[num_varying:]
            all_sums, all_each = self._body(inputs, row, own)
            _, terms = _distinct(all_sums)
            _, results = _distinct(all_each)
            outputs = [*(terms[k] for k in sums), *(results[k] for k in each)]
            wrt = [x for x in (*inputs, *own) if isinstance(x, Scalar)]
            graph = wrt[0].graph
            adjoints = pullback(graph, zip(outputs, [*seeds, *more_seeds], strict=True), wrt)
            by_argument, by_varying = adjoints[:num_arguments], adjoints[num_arguments:]
            return [by_argument[i] for i in self.arguments], [by_varying[i] for i in self.varying]

        derived = object.__new__(RowFunction)
        derived._trace(body, num_arguments + len(sums), row_size, num_varying + len(each))
        return derived


@dataclass(frozen=True)
class RowCall:
    """A row function with the rows that it is called on.

    Arguments of the node are those that the function depends on, then the varying numbers row by row. Its results are
    the distinct sums, then the distinct results per row, row by row.
    """

    function: RowFunction
    rows: Rows

    @property
    def operations(self) -> Counter[str]:
        """Number of operations of each kind in all rows together."""
        return Counter({kind: count * len(self.rows) for kind, count in self.function.operations.items()})

    @property
    def repetitions(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def values(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the results for numbers or arrays; sums are taken in the order of the rows."""
        batch = np.broadcast_shapes(*(np.shape(x) for x in arguments))
        shared, varying = self._unpack(arguments)
        _, row_size, num_varying = self.function.sizes
        inputs = {
            "arguments": _stack(shared, batch)[..., None, :],
            "row": np.array(self.rows).reshape(len(self.rows), row_size),
            "varying": _stack([x for own in varying for x in own], batch).reshape(*batch, len(self.rows), num_varying),
        }
        found = evaluate(self.function.program, inputs)
        sums = np.add.accumulate(found["sums"], axis=-2)[..., -1, :]
        each = found["each"].reshape(*batch, -1) if found["each"].size else np.zeros((*batch, 0))
        return [*np.moveaxis(sums, -1, 0), *np.moveaxis(each, -1, 0)]

    def pullback(self, arguments: Sequence[Real], adjoints: Mapping[int, Real]) -> list[Real]:
        """Return the adjoints of the arguments as results of another call."""
        outputs = self.function.program.outputs
        num_sums, num_each = len(outputs["sums"]), len(outputs["each"])
        sums = tuple(k for k in range(num_sums) if k in adjoints)
        each = tuple(sorted({(k - num_sums) % num_each for k in adjoints if k >= num_sums}))
        shared, varying = self._unpack(arguments)
        for r, own in enumerate(varying):
            own += [adjoints.get(num_sums + r * num_each + k, 0.0) for k in each]
        derived = self.function.adjoint(sums, each)
        by_argument, by_varying = derived.call([*shared, *(adjoints[k] for k in sums)], self.rows, varying)
        return [*by_argument, *(x for results in by_varying for x in results)]

    def _unpack(self, passed: Sequence[Any]) -> tuple[list[Any], list[list[Any]]]:
        """Return all arguments, and the varying numbers of each row; zero for those that were not passed."""
        function = self.function
        num_arguments, _, num_varying = function.sizes
        values = iter(passed)
        shared = [next(values) if i in function.arguments else 0.0 for i in range(num_arguments)]
        varying = [[next(values) if i in function.varying else 0.0 for i in range(num_varying)] for _ in self.rows]
        return shared, varying


@dataclass(frozen=True)
class _Output:
    """An output of a row function: one of the distinct results, its negative, or a constant."""

    index: int
    factor: float
    """+1 or −1; the value of a constant, whose index is −1."""

    def of(self, results: Sequence[Real], rows: int) -> Real:
        """Return the output, summed over so many rows."""
        return self.factor * rows if self.index < 0 else self.factor * results[self.index]


def _distinct(outputs: Sequence[Real]) -> tuple[list[_Output], list[Real]]:
    """Return how each output follows from the distinct ones, and these."""
    distinct: dict[int, Real] = {}
    found: list[_Output] = []
    for output in outputs:
        if not isinstance(output, Scalar):
            found.append(_Output(-1, float(output)))
            continue
        operation, *arguments = output.graph.nodes[output.index]
        negated = operation == "neg"
        index = arguments[0] if negated else output.index
        distinct.setdefault(index, output.graph.argument(index))
        found.append(_Output(list(distinct).index(index), -1.0 if negated else 1.0))
    return found, list(distinct.values())


def _stack(numbers: Sequence[Any], batch: tuple[int, ...]) -> np.ndarray:
    """Return numbers or arrays of shape `batch` as one array [*batch, count]."""
    return np.stack([np.broadcast_to(x, batch) for x in numbers], axis=-1) if numbers else np.zeros((*batch, 0))
