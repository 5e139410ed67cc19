"""The gradient example: adjoint and central differences agree, and slopes scatter with stiffness and horizon."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

SCRIPT = Path(__file__).parents[3] / "examples" / "check_gradients.py"
STEPS = 30
TOLERANCE = 1e-6
"""Central differences of 1e-6 in float64 have errors of 1e-8."""


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_central_differences_agree_with_the_adjoint_on_every_ground(example: dict[str, Any]) -> None:
    adjoint = example["slopes"](STEPS, [STEPS])[0]
    error = (example["central_differences"](STEPS, 1e-6) - adjoint).abs().amax(dim=-1)
    assert (error < TOLERANCE * adjoint.abs().amax(dim=-1)).all()


def test_slopes_scatter_with_stiffness_and_horizon_while_the_overall_slope_stays(example: dict[str, Any]) -> None:
    horizons = [6, 20, STEPS]
    free, touched, after = example["slopes"](STEPS, horizons).square().mean(dim=-1).sqrt()
    assert torch.allclose(free, free[0].expand(4)), "before contact the ground does not matter"
    assert (after.diff() > 0).all()
    assert after[-1] > 2.0 * touched[-1] > 10.0 * free[-1]
    overall = example["overall_slopes"](STEPS, horizons)[-1].abs()
    assert (overall < 0.5).all()
    finer = example["slopes"](STEPS, [STEPS], substeps=64)[0].square().mean(dim=-1).sqrt()
    assert finer[-1] < 0.5 * after[-1]
