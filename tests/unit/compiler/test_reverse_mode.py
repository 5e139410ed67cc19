"""Reverse mode beyond single operations: paths that end, second derivatives, and systems solved implicitly."""

import numpy as np
import pytest

from ahac.sim import Real, cos, exp, sin, stop_gradient
from ahac.sim.compiler.graph import Scalar
from ahac.sim.compiler.operations import barrier, implicit
from ahac.sim.compiler.program import Program, adjoint, evaluate, trace
from ahac.sim.compiler.reverse_mode import pullback

ROUNDING = 1e-12
"""Relative; the same derivative by another route in float64."""

Groups = dict[str, list[Real]]


def gradient(program: Program, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    """Of the sum of the output y."""
    seeds = {f"{name}_bar": np.ones(len(group)) for name, group in program.outputs.items()}
    return evaluate(adjoint(program, list(program.inputs)), {**inputs, **seeds})


def test_nothing_flows_through_stop() -> None:
    program = trace(lambda x: {"y": [stop_gradient(x[0]) * x[0] + stop_gradient(sin(x[0]))]}, {"x": 1})
    assert gradient(program, x=np.array([0.3]))["x_bar"] == pytest.approx(0.3, rel=ROUNDING)


def test_a_mark_is_a_node_of_its_own_with_the_same_value_and_derivative() -> None:
    program = trace(lambda x: {"y": [barrier(x[0].graph, x[0]) * x[0]]}, {"x": 1})
    assert evaluate(program, {"x": np.array([0.3])})["y"] == pytest.approx(0.09, rel=ROUNDING)
    assert gradient(program, x=np.array([0.3]))["x_bar"] == pytest.approx(0.6, rel=ROUNDING)


def test_a_path_ends_at_what_is_asked_for() -> None:
    """∂y/∂m for a marked m in the middle, and ∂y/∂x only along the way that does not pass m."""

    def function(x: list[Scalar]) -> Groups:
        middle = barrier(x[0].graph, x[0] * x[0])
        y = middle * x[0]
        assert isinstance(y, Scalar)
        return {"y": list(pullback(x[0].graph, [(y, 1.0)], [middle, x[0]]))}

    assert evaluate(trace(function, {"x": 1}), {"x": np.array([3.0])})["y"].tolist() == [3.0, 9.0]


def test_adjoints_of_shared_parts_add_up() -> None:
    program = trace(lambda x: {"y": [x[0] * x[1], sin(x[0] * x[1])], "z": [x[0] * x[1] + x[1], 2.0]}, {"x": 2})
    a, b = 0.4, -1.3
    by_product = 2.0 + np.cos(a * b)
    found = gradient(program, x=np.array([a, b]))["x_bar"]
    assert found == pytest.approx([by_product * b, by_product * a + 1.0], rel=ROUNDING)


def test_an_input_that_nothing_depends_on_has_a_zero_adjoint() -> None:
    program = trace(lambda x, unused: {"y": [x[0] * 2.0]}, {"x": 1, "unused": 2})
    found = gradient(program, x=np.array([0.1]), unused=np.zeros(2))
    assert found["unused_bar"].tolist() == [0.0, 0.0]


def test_an_adjoint_can_be_differentiated_again() -> None:
    program = trace(lambda x: {"y": [sin(x[0]) * exp(x[0])]}, {"x": 1})
    once = adjoint(program, ["x"])
    twice = adjoint(once, ["x"])
    x, one = np.array([0.7]), np.ones(1)
    found = evaluate(twice, {"x": x, "y_bar": one, "x_bar_bar": one})["x_bar"]
    assert found == pytest.approx(2.0 * np.cos(x) * np.exp(x), rel=ROUNDING)


# ------------------------------------------------------------------------------------------------ implicit systems


def solution(x: list[Scalar], explicit: bool) -> Groups:
    """a with K(x) a = b(x), by Cramer's rule; K is not symmetric."""
    k = [[3.0 + x[0] * x[0], x[1]], [sin(x[0]), 2.0 + cos(x[1])]]
    b = [x[1] * 2.0, exp(x[0])]

    def solve(m: list[list[Real]], right: list[Real]) -> list[Real]:
        scale = 1.0 / (m[0][0] * m[1][1] - m[0][1] * m[1][0])
        return [(m[1][1] * right[0] - m[0][1] * right[1]) * scale, (m[0][0] * right[1] - m[1][0] * right[0]) * scale]

    def residual(multiplier: list[Real], a: list[Real]) -> Real:
        rows = [k[i][0] * a[0] + k[i][1] * a[1] - b[i] for i in range(2)]
        return multiplier[0] * rows[0] + multiplier[1] * rows[1]

    a = solve(k, b)
    if not explicit:
        transposed = [[k[0][0], k[1][0]], [k[0][1], k[1][1]]]
        a = implicit(a, lambda bars: solve(transposed, list(bars)), residual)  # pyright: ignore[reportArgumentType]
    return {"y": [a[0] * a[0] + x[0], sin(a[1]) * a[0]]}


def test_an_implicit_solution_has_the_derivative_of_the_explicit_one() -> None:
    implied, direct = (trace(lambda x, e=e: solution(x, e), {"x": 2}) for e in (False, True))
    x = np.array([[0.3, -0.8], [1.2, 0.4]])
    seeds = {"y_bar": np.array([[1.0, -0.5], [0.2, 2.0]])}
    assert np.array_equal(evaluate(implied, {"x": x})["y"], evaluate(direct, {"x": x})["y"])
    once = [adjoint(program, ["x"]) for program in (implied, direct)]
    found, wanted = (evaluate(program, {"x": x, **seeds})["x_bar"] for program in once)
    np.testing.assert_allclose(found, wanted, rtol=ROUNDING)
    again = {"x": x, **seeds, "x_bar_bar": np.array([[0.7, -0.1], [0.4, 1.0]])}
    curved, expected = (evaluate(adjoint(program, ["x"]), again)["x_bar"] for program in once)
    np.testing.assert_allclose(curved, expected, rtol=ROUNDING)


def test_the_unknowns_of_a_system_may_be_given() -> None:
    """Then they are not solved for: another solution gives another derivative, linear in it."""
    program = trace(lambda x: solution(x, explicit=False), {"x": 2})
    back = adjoint(program, ["x"], unknowns="a")
    x, seeds = np.array([0.3, -0.8]), {"y_bar": np.array([1.0, -0.5])}
    k = np.array([[3.0 + x[0] ** 2, x[1]], [np.sin(x[0]), 2.0 + np.cos(x[1])]])
    a = np.linalg.solve(k, [2.0 * x[1], np.exp(x[0])])
    wanted = evaluate(adjoint(program, ["x"]), {"x": x, **seeds})["x_bar"]
    np.testing.assert_allclose(evaluate(back, {"x": x, "a": a, **seeds})["x_bar"], wanted, rtol=ROUNDING)
    assert not np.allclose(evaluate(back, {"x": x, "a": a + 0.1, **seeds})["x_bar"], wanted)
    assert len(back.live()) < len(adjoint(program, ["x"]).live())


def test_an_adjoint_through_some_unknowns_only_is_complete() -> None:
    """A loss of one unknown still feels the whole system."""
    implied, direct = (trace(lambda x, e=e: {"y": solution(x, e)["y"][1:]}, {"x": 2}) for e in (False, True))
    x = np.array([0.3, -0.8])
    np.testing.assert_allclose(gradient(implied, x=x)["x_bar"], gradient(direct, x=x)["x_bar"], rtol=ROUNDING)
