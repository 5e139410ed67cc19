"""Building nodes: what folds away, what is shared, and what traced Python may not do."""

from collections.abc import Callable

import numpy as np
import pytest

from ahac.sim import TraceError, abs_, maximum, minimum, sin, where
from ahac.sim.compiler.graph import Graph, Real, Scalar
from ahac.sim.compiler.program import trace

Expression = Callable[..., Real]


@pytest.fixture
def inputs() -> tuple[Scalar, Scalar]:
    graph = Graph()
    a, b = (graph.leaf("input", ("x", i)) for i in range(2))
    return a, b


def same(left: Real, right: Real) -> bool:
    """Whether two expressions are one and the same node, or one and the same number."""
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        return left.graph is right.graph and left.index == right.index
    return not isinstance(left, Scalar) and not isinstance(right, Scalar) and left == right


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (lambda a, b: a + 0.0, lambda a, b: a),
        (lambda a, b: 0.0 + a, lambda a, b: a),
        (lambda a, b: a - 0.0, lambda a, b: a),
        (lambda a, b: 0.0 - a, lambda a, b: -a),
        (lambda a, b: a * 0.0, lambda a, b: 0.0),
        (lambda a, b: 0.0 * a, lambda a, b: 0.0),
        (lambda a, b: a * 1.0, lambda a, b: a),
        (lambda a, b: a * -1.0, lambda a, b: -a),
        (lambda a, b: a / 1.0, lambda a, b: a),
        (lambda a, b: a**1, lambda a, b: a),
        (lambda a, b: a**5, lambda a, b: (a * a) * (a * a) * a),
        (lambda a, b: a - a, lambda a, b: 0.0),
        (lambda a, b: a * 2.0 * 3.0, lambda a, b: 6.0 * a),
        (lambda a, b: a * 2.0 / 4.0, lambda a, b: 0.5 * a),
        (lambda a, b: where(a < b, 2.0, 2.0), lambda a, b: 2.0),
        (lambda a, b: where(a < b, b, b), lambda a, b: b),
        (lambda a, b: where(True, a, b), lambda a, b: a),
        (lambda a, b: sin(0.0), lambda a, b: 0.0),
        (lambda a, b: minimum(2.0, 3.0) + maximum(2.0, 3.0), lambda a, b: 5.0),
    ],
)
def test_constants_fold(written: Expression, meant: Expression, inputs: tuple[Scalar, Scalar]) -> None:
    assert same(written(*inputs), meant(*inputs))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (lambda a, b: -(a * -1.0), lambda a, b: a),
        (lambda a, b: -(a - b), lambda a, b: b - a),
        (lambda a, b: a + -b, lambda a, b: a - b),
        (lambda a, b: -a + b, lambda a, b: b - a),
        (lambda a, b: -a + -b, lambda a, b: -(a + b)),
        (lambda a, b: a - -b, lambda a, b: a + b),
        (lambda a, b: -a - b, lambda a, b: -(a + b)),
        (lambda a, b: 2.0 - -a, lambda a, b: a + 2.0),
        (lambda a, b: -a * b, lambda a, b: -(a * b)),
        (lambda a, b: -a * -b, lambda a, b: a * b),
        (lambda a, b: -a * 3.0, lambda a, b: a * -3.0),
        (lambda a, b: a + -a, lambda a, b: 0.0),
    ],
)
def test_signs_move_outwards(written: Expression, meant: Expression, inputs: tuple[Scalar, Scalar]) -> None:
    assert same(written(*inputs), meant(*inputs))


def test_a_subexpression_is_made_once(inputs: tuple[Scalar, Scalar]) -> None:
    a, b = inputs
    first = sin(a * b) / (a + b)
    size = len(a.graph)
    assert same(sin(b * a) / (b + a), first)
    assert len(a.graph) == size


def test_different_expressions_stay_apart(inputs: tuple[Scalar, Scalar]) -> None:
    a, b = inputs
    assert not same(a - b, b - a)
    assert not same(where(a < b, a, b), where(b < a, a, b))
    assert not same(a * 2.0, a * 3.0)


def test_only_what_the_outputs_need_is_live() -> None:
    def function(x: list[Scalar]) -> dict[str, list[Real]]:
        sin(x[0] * x[1] + 7.0)
        return {"y": [x[1] * 2.0]}

    program = trace(function, {"x": 2})
    assert [program.graph.nodes[i][0] for i in program.live()] == ["input", "mul"]


@pytest.mark.parametrize(
    "branch",
    [
        lambda a, b: 1.0 if a < b else 2.0,
        lambda a, b: 1.0 if a > 0.5 else 2.0,
        lambda a, b: min(a, b),
        lambda a, b: max(a, 0.0),
        lambda a, b: sorted([a, b]),
        lambda a, b: 1.0 if a else 2.0,
        lambda a, b: a < b and a > 0.0,
    ],
)
def test_a_branch_on_a_traced_value_is_refused_with_advice(branch: Expression, inputs: tuple[Scalar, Scalar]) -> None:
    advice = r"where\(a < b, x, y\) instead of if, minimum\(a, b\) and maximum\(a, b\) instead of min"
    with pytest.raises(TraceError, match=advice):
        branch(*inputs)


@pytest.mark.parametrize("compare", [lambda a, b: a == b, lambda a, b: a == 0.0, lambda a, b: a != b])
def test_equality_of_traced_values_is_refused(compare: Expression, inputs: tuple[Scalar, Scalar]) -> None:
    with pytest.raises(TraceError):
        compare(*inputs)


@pytest.mark.parametrize(("exponent", "advice"), [(0, "exp and log"), (-1, "exp and log"), (1.5, "exp"), (0.5, "sqrt")])
def test_only_whole_positive_powers(exponent: float, advice: str, inputs: tuple[Scalar, Scalar]) -> None:
    with pytest.raises(TraceError, match=f"integer powers from 1 to 64, got {exponent!r}; use {advice}"):
        inputs[0] ** exponent  # pyright: ignore[reportUnusedExpression]


def test_a_foreign_value_is_named(inputs: tuple[Scalar, Scalar]) -> None:
    with pytest.raises(TraceError, match="got float: nan"):
        _ = inputs[0] * float("nan")
    with pytest.raises(TraceError, match="got str: 'one'"):
        inputs[0] + "one"  # pyright: ignore[reportOperatorIssue, reportUnusedExpression]
    with pytest.raises(TraceError, match=r"first argument of where\(\) must be a comparison such as a < b, got Scalar"):
        where(inputs[0], 1.0, 2.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TraceError, match="output 'y' must be a list of traced scalars, got str in it"):
        trace(lambda x: {"y": ["one"]}, {"x": 1})  # pyright: ignore[reportArgumentType]


def test_numbers_of_other_kinds_are_welcome(inputs: tuple[Scalar, Scalar]) -> None:
    a, _ = inputs
    assert same(np.float32(2.5) * a, a * 2.5)  # pyright: ignore[reportOperatorIssue]
    assert same(a * np.float64(2.5), a * 2.5)
    assert same(np.float64(2.5) + a, a + 2.5)
    assert same(np.float64(2.5) - a, 2.5 - a)
    assert same(np.float64(2.5) / a, 2.5 / a)
    assert same(where(np.float64(2.5) < a, 1.0, 2.0), where(a > 2.5, 1.0, 2.0))  # pyright: ignore[reportArgumentType]
    assert same(where(np.float64(2.5) >= a, 1.0, 2.0), where(a <= 2.5, 1.0, 2.0))  # pyright: ignore[reportArgumentType]
    assert same(a**2.0, a * a)
    assert same(abs(a), abs_(a))


def test_a_scalar_of_another_trace_is_refused(inputs: tuple[Scalar, Scalar]) -> None:
    kept: list[Scalar] = []
    trace(lambda x: kept.append(x[0]) or {"y": []}, {"x": 1})
    with pytest.raises(TraceError, match="a scalar of one trace was used in another"):
        inputs[0] + kept[0]  # pyright: ignore[reportUnusedExpression]
