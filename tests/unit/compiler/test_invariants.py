"""Programs split into what is fixed and what changes from substep to substep: the same results."""

import numpy as np
import pytest

from ahac.sim import Real, clip, sin
from ahac.sim.compiler.graph import Scalar
from ahac.sim.compiler.invariants import FIXED, SplitProgram, split, sum_of
from ahac.sim.compiler.loops import RowFunction, sum_over_rows
from ahac.sim.compiler.program import Program, evaluate, trace
from ahac.sim.compiler.writer import Writer
from support.emulated_cuda import run_shared_worlds

ROUNDING = 1e-12
STEPS = 3
PULL = RowFunction(lambda a, row: [sin(a[0] * row[0]) * a[1]], 2, 1)


def step(x: list[Scalar], u: list[Scalar]) -> dict[str, list[Real]]:
    """Return the next state, and terms to be summed of every kind, some of them linear in one changing number."""
    pull = clip(u[0], -0.4, 0.4) * 3.0 + sin(u[1])
    (total,) = sum_over_rows(PULL, [x[0], pull], [(0.3,), (0.7,)])
    fixed = u[0] * u[1]
    inside = clip(u[0], -0.4, 0.4) - u[0]
    terms: list[Real] = [
        -(total * 2.0) * fixed,
        total,
        total * total * fixed,
        total * fixed + x[1],
        x[1],
        x[1] * fixed,
        fixed,
        u[0],
        1.5,
        0.0,
        total * (inside * 2.0),
    ]
    return {"x": [x[0] * 0.5 + total, x[1] * pull], "sum": terms}


@pytest.fixture
def program() -> Program:
    return trace(step, {"x": 2, "u": 2})


@pytest.fixture
def parts(program: Program) -> SplitProgram:
    return split(program, ["u"], ["sum"])


def expected(program: Program, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return state and sums after all substeps."""
    total = np.zeros((len(x), len(program.outputs["sum"])))
    for _ in range(STEPS):
        found = evaluate(program, {"x": x, "u": u})
        x, total = found["x"], total + found["sum"]
    return x, total


def values() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.uniform(-1.0, 1.0, (4, 2)), rng.uniform(-1.0, 1.0, (4, 2))


def test_the_parts_give_the_results_of_the_whole(program: Program, parts: SplitProgram) -> None:
    x, u = values()
    end, wanted = expected(program, x, u)
    w = evaluate(parts.before, {"u": u})[FIXED]
    total = np.zeros_like(wanted)
    for _ in range(STEPS):
        found = evaluate(parts.inside, {"x": x, "u": u, FIXED: w})
        x, total = found["x"], total + found["sum"]
    np.testing.assert_allclose(x, end, rtol=ROUNDING)
    found = evaluate(parts.after, {"u": u, FIXED: w, sum_of("sum"): total})
    np.testing.assert_allclose(found["sum"], wanted, rtol=ROUNDING, atol=ROUNDING)


def test_nothing_fixed_is_computed_inside(parts: SplitProgram) -> None:
    inside, graph = parts.inside, parts.inside.graph
    changing = {i for i in inside.live() if (inside.source(i) or ("",))[0] == "x" or i in graph.calls}
    for index in inside.live():
        if inside.source(index) is None and index not in graph.calls:
            assert changing.intersection(graph.nodes[index][1:]), graph.nodes[index]
            changing.add(index)


@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_with_loops_compute_what_is_fixed_once(program: Program, threads: int) -> None:
    x, u = values()
    end, wanted = expected(program, x, u)
    writer = Writer(threads=threads)
    writer.load("x", 2)
    writer.load("u", 2)
    writer.declare("sum", wanted.shape[1])
    writer.load_timestep()
    groups = {"x": "x", "u": "u"}
    writer.substeps(lambda thread: None, program, groups, {"x": "x", "sum": "sum"}, add=["sum"], fixed=["u"])
    writer.store("x", 2, "to_x")
    writer.store("sum", wanted.shape[1], "to_sum")
    results = {"to_x": np.full(x.shape, np.nan), "to_sum": np.full(wanted.shape, np.nan)}
    run_shared_worlds(writer.source("test"), {"x": x, "u": u, **results}, worlds=4, steps=STEPS)
    np.testing.assert_allclose(results["to_x"], end, rtol=ROUNDING)
    np.testing.assert_allclose(results["to_sum"], wanted, rtol=ROUNDING, atol=ROUNDING)
