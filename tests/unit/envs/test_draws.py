"""`Draw`: numbers from uniform inputs, and how many of these they use."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from ahac.core.errors import TraceError
from ahac.envs import Draw
from ahac.sim import Real
from ahac.sim.compiler.program import evaluate, trace

U = np.random.default_rng(1).random((20_000, 6))


def drawn(*calls: Callable[[Draw], Real]) -> np.ndarray:
    """Values that functions draw, in order."""

    def numbers(noise: list[Real]) -> dict[str, list[Real]]:
        draw = Draw(noise)
        return {"values": [call(draw) for call in calls]}

    return evaluate(trace(numbers, {"noise": U.shape[1]}), {"noise": U})["values"].T


def normal(draw: Draw) -> Real:
    return draw.normal()


def test_uniform_numbers_are_the_inputs_scaled() -> None:
    one, two, three = drawn(lambda d: d(-0.5, 1.5), lambda d: d.uniform(2.0, 3.0), lambda d: d.uniform())
    np.testing.assert_allclose(one, 2.0 * U[:, 0] - 0.5)
    np.testing.assert_allclose(two, 2.0 + U[:, 1])
    np.testing.assert_allclose(three, U[:, 2])


def test_two_normal_numbers_use_two_inputs() -> None:
    one, two, uniform = drawn(lambda d: d.normal(1.0, 2.0), normal, lambda d: d(0.0, 1.0))
    radius, angle = np.sqrt(-2.0 * np.log1p(-U[:, 0])), 2.0 * math.pi * U[:, 1]
    np.testing.assert_allclose(one, 1.0 + 2.0 * radius * np.cos(angle), rtol=1e-9)
    np.testing.assert_allclose(two, radius * np.sin(angle), rtol=1e-9)
    np.testing.assert_allclose(uniform, U[:, 2])


def test_normal_numbers_are_normal_and_independent() -> None:
    numbers = drawn(normal, normal, normal)
    np.testing.assert_allclose(np.cov(numbers), np.eye(3), atol=0.05)
    np.testing.assert_allclose(numbers.mean(axis=1), 0.0, atol=0.03)
    np.testing.assert_allclose((np.abs(numbers) < 1.0).mean(axis=1), 0.6827, atol=0.015)
    np.testing.assert_allclose((numbers**4).mean(axis=1), 3.0, atol=0.4)


def test_extreme_inputs_give_finite_normal_numbers() -> None:
    program = trace(lambda noise: {"x": [Draw(noise).normal()]}, {"noise": 2})
    ends = np.array([[0.0, 0.0], [1.0 - 2.0**-24, 0.5], [1.0 - 2.0**-53, 0.25]])
    assert np.isfinite(evaluate(program, {"noise": ends})["x"]).all()


@pytest.mark.parametrize("probability", [0.0, 0.25, 1.0])
def test_chance_is_one_with_its_probability(probability: float) -> None:
    (found,) = drawn(lambda d: d.chance(probability))
    assert set(np.unique(found)) <= {0.0, 1.0}
    np.testing.assert_allclose(found.mean(), probability, atol=0.02)


@pytest.mark.parametrize("probability", [-0.1, 1.5, math.nan])
def test_other_probabilities_are_refused(probability: float) -> None:
    with pytest.raises(TraceError, match="probability must be between 0 and 1, got"):
        Draw([0.5]).chance(probability)


def test_drawing_more_than_there_is_raises() -> None:
    draw = Draw([0.5])
    draw()
    with pytest.raises(TraceError, match="drew more random numbers than in its first trace"):
        draw()
