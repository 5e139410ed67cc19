"""The soft Heaviside function: closed forms against quadrature, estimates against closed forms."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from ahac.core.errors import InputError
from ahac.gradients.heaviside import (
    HeavisideSettings,
    expectation,
    gradient,
    informative_share,
    slope,
    soft_heaviside,
    study,
)

QUADRATURE = 1e-8
"""Tolerance of Gauss-Legendre quadrature with 200 points per smooth piece; it is accurate to 1e-12 here."""
THETA = np.array([-0.7, -0.11, -0.0025, 0.0, 0.0004, 0.05, 0.3])
SHAPES = [(0.005, 0.1), (0.02, 0.4), (0.1, 0.05), (0.5, 0.1), (1.0, 1.0)]


def average(function: Callable[[np.ndarray, float], np.ndarray], theta: float, width: float, sigma: float) -> float:
    """Return E[f(θ + w)], integrated piecewise between the kinks of f within twelve deviations of the mean."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    far = 12.0 * sigma
    edges = sorted({theta - far, theta + far, *(x for x in (-width / 2, width / 2, theta) if abs(x - theta) < far)})
    total = 0.0
    for low, high in pairwise(edges):
        x = 0.5 * (low + high) + 0.5 * (high - low) * nodes
        # Rounding near a kink must not select the wrong piece.
        inside = np.clip(x, np.nextafter(low, high), np.nextafter(high, low))
        density = np.exp(-0.5 * ((x - theta) / sigma) ** 2) / (sigma * np.sqrt(2.0 * np.pi))
        total += 0.5 * (high - low) * float(weights @ (function(inside, width) * density))
    return total


@pytest.mark.parametrize(("width", "sigma"), SHAPES)
def test_the_exact_gradient_and_expectation_match_quadrature(width: float, sigma: float) -> None:
    for function, exact in ((slope, gradient), (soft_heaviside, expectation)):
        expected = [average(function, theta, width, sigma) for theta in THETA]
        assert np.abs(exact(THETA, width, sigma) - expected).max() < QUADRATURE


@pytest.mark.parametrize(("width", "sigma"), SHAPES)
def test_the_gradient_is_the_derivative_of_the_expectation(width: float, sigma: float) -> None:
    eps = 1e-4 * sigma
    difference = (expectation(THETA + eps, width, sigma) - expectation(THETA - eps, width, sigma)) / (2.0 * eps)
    assert difference == pytest.approx(gradient(THETA, width, sigma), abs=1e-6 / sigma)


def test_few_samples_are_informative_at_a_step() -> None:
    share = informative_share(0.0, 0.005, 0.1)
    assert share == pytest.approx(0.005 / (0.1 * np.sqrt(2.0 * np.pi)), rel=1e-3)
    noise = 0.1 * np.random.default_rng(0).standard_normal(200_000)
    assert (slope(noise, 0.005) > 0.0).mean() == pytest.approx(share, abs=4.0 * np.sqrt(share / len(noise)))


def test_first_order_is_worse_on_a_step_and_better_on_a_ramp() -> None:
    result = study(HeavisideSettings(widths=(0.005, 1.0), sigmas=(0.1,), samples=256, points=200))
    ratio = result["first_by_width"][:, -1] / result["zeroth_by_width"][:, -1]
    assert ratio[0] > 2.0
    assert ratio[1] < 0.5


def test_errors_fall_with_the_root_of_the_samples() -> None:
    result = study(HeavisideSettings(widths=(0.1,), sigmas=(0.1,), samples=2000, points=400))
    for name in ("first", "zeroth"):
        late = result["sizes"] >= 50
        rate = np.polyfit(np.log(result["sizes"][late]), np.log(result[f"{name}_by_width"][0][late]), 1)[0]
        assert rate == pytest.approx(-0.5, abs=0.06)


def test_the_arrays_are_what_the_settings_ask_for_and_a_seed_repeats_them() -> None:
    c = HeavisideSettings(widths=(0.1, 0.2, 0.3), sigmas=(0.1, 0.2), samples=20, points=30, seed=3)
    one = study(c)
    two = study(c)
    other = study(replace(c, seed=4))
    assert one["first_by_width"].shape == (3, len(one["sizes"]))
    assert one["zeroth_by_sigma"].shape == (2, len(one["sizes"]))
    assert (one["theta"].shape, one["sizes"][0], one["sizes"][-1]) == ((30,), 1, 20)
    assert all(np.array_equal(one[name], two[name]) for name in one.arrays)
    assert not np.array_equal(one["zeroth"], other["zeroth"])
    with pytest.raises(InputError, match="a study of heaviside has no array 'errors'; it has: theta"):
        one["errors"]


@pytest.mark.parametrize(
    "invalid",
    [
        {"width": 0.0},
        {"sigmas": (0.1, -1.0)},
        {"widths": ()},
        {"sigmas": ()},
        {"samples": 0},
        {"points": 1},
        {"seed": -1},
    ],
)
def test_invalid_settings_are_refused(invalid: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(invalid))):
        HeavisideSettings(**invalid)  # pyright: ignore[reportArgumentType]
