"""The swing-up example: iLQR lifts the pendulum, and random shooting with more steps does not."""

import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "examples" / "swing_up.py"
ITERATIONS = 15


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_ilqr_lifts_the_pendulum_and_shooting_does_not(example: dict[str, Any]) -> None:
    x, u, steps = example["ilqr"](ITERATIONS)
    tilt = x[:, :2].cumsum(dim=-1).abs()  # of both arms; the second angle is relative to the first
    assert (tilt[0] > 3.0).all()
    assert (tilt[-1] < 0.25).all()
    assert u.abs().max() <= 1.0
    drawn, _, taken = example["random_shooting"](steps)
    assert taken >= steps
    assert drawn[-1, :2].cumsum(dim=-1).abs().max() > 0.5


@pytest.mark.extended
def test_it_ends_upright_and_ten_times_the_steps_do_not_help_shooting(example: dict[str, Any]) -> None:
    x, _, steps = example["ilqr"](60)
    assert example["is_upright"](x)
    assert not example["is_upright"](example["random_shooting"](10 * steps)[0])
