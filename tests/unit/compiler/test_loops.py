"""Sums over rows: the same values and derivatives as the unrolled sum, in numpy, on the CPU and by several threads."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from ahac.core.errors import TraceError
from ahac.native.codegen import Target
from ahac.sim import Real, exp, maximum, sin, sqrt, stop_gradient
from ahac.sim.autograd import Launcher, MapKernels
from ahac.sim.compiler import loops
from ahac.sim.compiler.graph import Scalar
from ahac.sim.compiler.loops import RowFunction, sum_over_rows
from ahac.sim.compiler.operations import barrier, implicit
from ahac.sim.compiler.program import Program, adjoint, evaluate, trace
from ahac.sim.compiler.reverse_mode import pullback
from ahac.sim.compiler.writer import Writer
from support.emulated_cuda import run_shared_worlds

ROUNDING = 1e-12
"""Relative; the same sum in another order in float64."""

Groups = dict[str, list[Real]]
Sum = Callable[..., list[Real]]

ROWS = [(0.3, -1.2), (0.8, 0.4), (-0.5, 2.0), (1.1, 0.7), (0.2, 0.1)]


def body(arguments: list[Real], row: list[Real]) -> list[Real]:
    """Return outputs of every kind: sums, one of them negated and one twice, an argument, and a constant."""
    a, b, c = arguments
    x = sin(a * row[0] + b) * row[1]
    y = maximum(x * x - b, 0.1) / sqrt(1.0 + c * c)
    return [x, y, -x, x, c, 2.0, x * stop_gradient(y)]


def weighted(arguments: list[Real], row: list[Real], varying: list[Real]) -> list[Real]:
    """Return a sum in which each row has a traced weight, and an offset that is not used."""
    weight, _ = varying
    return [weight * exp(arguments[0] * row[0]) * row[1], weight * weight * arguments[1]]


def unrolled(
    function: Callable[..., Sequence[Real]],
    arguments: Sequence[Real],
    rows: Sequence[Sequence[float]],
    varying: Sequence[Sequence[Real]] | None = None,
) -> list[Real]:
    """Sum up without a loop."""
    more = [[] for _ in rows] if varying is None else [[list(x)] for x in varying]
    terms = [function(list(arguments), list(row), *x) for row, x in zip(rows, more, strict=True)]
    return [sum(column[1:], column[0]) for column in zip(*terms, strict=True)]


def looped(function: Callable[..., Sequence[Real]], num_varying: int = 0, chunk: int | None = None) -> Sum:
    """Return `sum_over_rows` with the signature of `unrolled`."""
    compiled: dict[int, RowFunction] = {}

    def total(
        _: object,
        arguments: Sequence[Real],
        rows: Sequence[Sequence[float]],
        varying: Sequence[Sequence[Real]] | None = None,
    ) -> list[Real]:
        if len(arguments) not in compiled:
            compiled[len(arguments)] = RowFunction(function, len(arguments), len(rows[0]), num_varying)
        return sum_over_rows(compiled[len(arguments)], arguments, rows, varying, chunk)

    return total


def plain(total: Sum) -> Program:
    """One call of a function."""
    return trace(lambda x: {"y": total(body, x, ROWS)}, {"x": 3})


def shared(total: Sum) -> Program:
    """Calls whose arguments are shared, repeated, constant, or results of another call."""

    def function(x: list[Scalar]) -> Groups:
        first = total(body, x, ROWS)
        second = total(body, [x[1], x[1], 0.3], ROWS[:2])
        third = total(body, [first[0] * 0.1, second[1], x[2]], ROWS[2:])
        again = total(body, x, ROWS)
        constant = total(body, [0.1, 0.2, 0.3], ROWS)
        return {"y": [first[1], second[0] * x[0], third[6], again[2] + constant[1]], "z": [third[0], first[5]]}

    return trace(function, {"x": 3})


def varied(total: Sum) -> Program:
    """A traced weight per row, some of them shared, constant or unused."""

    def function(x: list[Scalar], w: list[Scalar]) -> Groups:
        varying = [(w[0], 0.0), (w[1], x[0]), (w[0], 0.0), (0.7, x[1]), (w[2] * w[1], 0.0)]
        first = total(weighted, x, ROWS, varying)
        second = total(weighted, [first[0] * 0.1, x[0]], ROWS[:2], varying[:2])
        return {"y": [*first, second[0] * second[1]]}

    return trace(function, {"x": 2, "w": 4})


def solved(total: Sum) -> Program:
    """A linear equation k·a = b with sums over rows in k and b, and another one of its solution."""

    def function(x: list[Scalar]) -> Groups:
        def equation() -> tuple[Real, Real]:
            sums = total(body, x, ROWS)
            return sums[1] + 3.0, sums[0] + x[1]

        k, b = equation()
        (a,) = implicit([b / k], lambda bars: [bars[0] / k], lambda m, a: m[0] * (k * a[0] - b))
        after = total(body, [a, barrier(x[0].graph, x[0]), x[2]], ROWS[:3])
        return {"y": [a, after[0], after[1]]}

    return trace(function, {"x": 3})


PROGRAMS: dict[str, tuple[Callable[[Sum], Program], Callable[..., Sequence[Real]], int]] = {
    "plain": (plain, body, 0),
    "shared": (shared, body, 0),
    "varied": (varied, weighted, 2),
    "solved": (solved, body, 0),
}


@pytest.fixture(params=PROGRAMS)
def pair(request: pytest.FixtureRequest) -> tuple[Program, Program]:
    """Return a program with loops, and the same one without."""
    program, function, num_varying = PROGRAMS[request.param]
    return program(looped(function, num_varying)), program(unrolled)


def random_inputs(program: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.uniform(-1.0, 1.0, (4, len(group))) for name, group in program.inputs.items()}


def assert_same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    for name, expected in wanted.items():
        np.testing.assert_allclose(found[name], expected, rtol=ROUNDING, atol=ROUNDING, err_msg=name)


def test_a_loop_computes_the_sum(pair: tuple[Program, Program]) -> None:
    loop, sums = pair
    values = random_inputs(loop)
    assert loop.graph.calls
    assert_same(evaluate(loop, values), evaluate(sums, values))


def test_a_loop_has_the_derivatives_of_the_sum(pair: tuple[Program, Program]) -> None:
    inputs = list(pair[0].inputs)
    loop, sums = (adjoint(program, inputs) for program in pair)
    values = random_inputs(loop)
    assert_same(evaluate(loop, values), evaluate(sums, values))
    loop, sums = (adjoint(program, inputs) for program in (loop, sums))
    values = random_inputs(loop)
    assert_same(evaluate(loop, values), evaluate(sums, values))


def test_compiled_loops_compute_the_sum_and_its_derivatives(pair: tuple[Program, Program]) -> None:
    loop, sums = pair
    launcher = Launcher(Target("cpu", True, 32), torch.device("cpu"), torch.float64, "loops", 1)
    kernels = MapKernels(launcher, "test", lambda: loop)
    values = random_inputs(loop)
    inputs = [torch.tensor(x, requires_grad=True) for x in values.values()]
    outputs = kernels(*inputs)
    assert_same({name: x.detach().numpy() for name, x in outputs.items()}, evaluate(sums, values))
    bars = {f"{name}_bar": np.random.default_rng(1).normal(size=x.shape) for name, x in outputs.items()}
    found = torch.autograd.grad([*outputs.values()], inputs, [torch.tensor(bar) for bar in bars.values()])
    wanted = evaluate(adjoint(sums, list(values)), {**values, **bars})
    assert_same({f"{name}_bar": x.numpy() for name, x in zip(values, found, strict=True)}, wanted)


@pytest.mark.parametrize("derivative", [False, True])
def test_several_threads_share_loops(derivative: bool) -> None:
    loop, sums = (shared(total) for total in (looped(body, chunk=2), unrolled))
    if derivative:
        loop, sums = (adjoint(program, ["x"]) for program in (loop, sums))
    values = random_inputs(loop)
    writer = Writer(threads=4)
    for name, group in loop.inputs.items():
        writer.load(name, len(group))
    for name, group in loop.outputs.items():
        writer.declare(f"to_{name}", len(group))
    writer.load_timestep()
    writer.substeps(lambda thread: None, loop, {n: n for n in values}, {n: f"to_{n}" for n in loop.outputs})
    for name, group in loop.outputs.items():
        writer.store(f"to_{name}", len(group))
    results = {f"to_{name}": np.full((4, len(group)), np.nan) for name, group in loop.outputs.items()}
    run_shared_worlds(writer.source("test"), {**values, **results}, worlds=4, steps=2)
    assert_same({name.removeprefix("to_"): x for name, x in results.items()}, evaluate(sums, values))


def test_chunks_add_up_to_the_sum() -> None:
    whole, chunks = (plain(looped(body, chunk=chunk)) for chunk in (None, 2))
    values = random_inputs(whole)
    assert (len(whole.graph.calls), len(chunks.graph.calls)) == (1, 3)
    assert_same(evaluate(chunks, values), evaluate(whole, values))
    back = adjoint(chunks, ["x"])
    values = random_inputs(back)
    assert_same(evaluate(back, values), evaluate(adjoint(plain(unrolled), ["x"]), values))


def test_long_loops_are_divided_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "CHUNK_OPERATIONS", 2 * RowFunction(body, 3, 2).operations.total())
    assert [len(call.rows) for call in plain(looped(body)).graph.calls.values()] == [1, 2, 2]  # pyright: ignore


def test_derivatives_in_the_middle_of_a_trace() -> None:
    """A path through a call ends at a mark, and a call that does not depend on it has no adjoint."""

    def function(x: list[Scalar], total: Sum) -> Groups:
        middle = barrier(x[0].graph, x[0] * x[0])
        beside = total(body, [x[0], x[1], 0.5], ROWS)[0]
        y = total(body, [middle, x[1], beside], ROWS)
        return {"y": pullback(x[0].graph, [(y[0], 1.0), (y[1], x[1])], [middle])}

    loop = trace(lambda x: function(x, looped(body)), {"x": 2})
    values = random_inputs(loop)
    assert len(loop.graph.calls) == 3
    assert_same(evaluate(loop, values), evaluate(trace(lambda x: function(x, unrolled), {"x": 2}), values))


def test_a_function_is_derived_once() -> None:
    program = shared(looped(body))
    back = adjoint(program, ["x"])
    functions = {id(call.function) for call in back.graph.calls.values()}  # pyright: ignore
    assert len(functions) <= 4  # the function, and its adjoints for three sets of results


def test_equal_and_constant_outputs_cost_nothing() -> None:
    function = RowFunction(body, 3, 2)
    assert len(function.program.outputs["sums"]) == 4  # of seven
    assert sum_over_rows(function, [0.1, 0.2, 0.3], [])[0] == 0.0


def test_arguments_that_the_body_ignores_are_not_passed() -> None:
    function = RowFunction(lambda a, row: [a[2] * row[0]], 3, 1)
    program = trace(lambda x: {"y": sum_over_rows(function, x, [(1.0,), (2.0,)])}, {"x": 3})
    assert {program.source(i) for i in program.live()} - {None} == {("x", 2)}


def test_numbers_give_numbers() -> None:
    found = sum_over_rows(RowFunction(body, 3, 2), [0.1, 0.2, 0.3], ROWS)
    assert all(type(x) is float for x in found)
    wanted = unrolled(body, [0.1, 0.2, 0.3], ROWS)
    np.testing.assert_allclose(np.array(found, dtype=float), np.array(wanted, dtype=float), rtol=ROUNDING)


@pytest.mark.parametrize(
    ("arguments", "rows", "varying", "complaint"),
    [
        ([1.0], [(1.0,)], None, "1 arguments instead of 2"),
        ([1.0, 2.0], [(1.0,), (1.0, 2.0)], None, "row 1 has 2 numbers, not 1"),
        ([1.0, 2.0], [(float("nan"),)], None, "row 0 contains nan"),
        ([1.0, 2.0], [(1.0,)], [(1.0,)], "row 0 has 1 varying scalars, not 0"),
        ([1.0, 2.0], [(1.0,)], [], "0 rows of varying scalars for 1 rows of constants"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(
    arguments: list[Real], rows: list[tuple[float, ...]], varying: list[tuple[Real, ...]] | None, complaint: str
) -> None:
    function = RowFunction(lambda a, row: [a[0] * row[0] + a[1]], 2, 1)
    with pytest.raises(TraceError, match=complaint):
        sum_over_rows(function, arguments, rows, varying)


def test_a_body_uses_its_own_arguments_only() -> None:
    def outside(x: list[Scalar]) -> Groups:
        return {"y": sum_over_rows(RowFunction(lambda a, row: [a[0] * x[0]], 1, 1), x, [(1.0,)])}

    with pytest.raises(TraceError, match="used in another"):
        trace(outside, {"x": 1})


def test_a_body_cannot_contain_another_loop() -> None:
    inner = RowFunction(lambda a, row: [a[0] * row[0]], 1, 1)
    with pytest.raises(TraceError, match="cannot call another"):
        RowFunction(lambda a, row: sum_over_rows(inner, a, [(1.0,)]), 1, 1)
