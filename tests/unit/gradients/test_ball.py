"""The ball study: physics, gradients, and the lemma's bound, which is never violated."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ahac.core.errors import InputError
from ahac.gradients.ball import DT, BallSettings, ball_model, simulate_throws, study
from ahac.gradients.lemma import bound_along_trajectory, bound_as_printed, zeroth_order_variance_bound
from ahac.gradients.study import Study
from ahac.sim import Simulator, State

SMALL = BallSettings(samples=64, stiffnesses=(1e4, 1e5), refinements=(8, 128))
"""The figure's ball with few throws; no other stiffness, to avoid compiling more kernels."""
SURE = 4.5
"""Number of standard errors within which a mean practically always lies."""


@pytest.fixture(scope="module")
def found() -> Study:
    return study(SMALL)


def test_the_bounds_are_never_violated(found: Study) -> None:
    assert (found["error"] <= found["bound"]).all()
    assert (found["error"] <= found["tight_bound"]).all()
    assert (found["sweep_error"] <= found["sweep_tight_bound"]).all()
    assert (found["zeroth_variance"] <= found["zeroth_bound"]).all()


@pytest.mark.parametrize(("seed", "angle", "sigma"), [(1, -0.9, 0.02), (2, -0.2, 0.3), (3, 0.4, 0.1), (4, -1.4, 0.05)])
def test_the_bounds_hold_for_other_throws(seed: int, angle: float, sigma: float) -> None:
    other = simulate_throws(replace(SMALL, seed=seed, angle=angle, sigma=sigma))
    assert (other["error"] <= other["bound"]).all()
    assert (other["error"] <= other["tight_bound"]).all()
    assert (other["zeroth_variance"] <= other["zeroth_bound"]).all()


def test_the_bound_along_the_trajectory_is_tighter_after_contact(found: Study) -> None:
    touched = np.cumsum(found["contact"]) > 0.0
    assert touched.any()
    assert (found["tight_bound"][touched] < found["bound"][touched]).all()


def test_bounds_by_hand() -> None:
    reward, dynamics = np.array([2.0, 3.0, 1.0]), np.array([1.0, 4.0, 2.0])
    assert bound_as_printed(reward, dynamics).tolist() == [1 * 2 * 1.5, 2 * 3 * 4.5, 3 * 3 * 16.5]
    assert bound_as_printed(reward, dynamics, policy=2.0).tolist() == [6.0, 54.0, 297.0]
    assert bound_along_trajectory(reward, np.array([1.0, 4.0, 8.0])).tolist() == [3.0, 27.0, 76.5]
    assert zeroth_order_variance_bound(reward, sigma=0.5).tolist() == [16.0, 72.0, 108.0]
    assert zeroth_order_variance_bound(reward, sigma=0.5, policy=2.0).tolist() == [64.0, 288.0, 432.0]


def test_before_contact_both_orders_agree_and_first_is_the_clearer_one(found: Study) -> None:
    free = np.flatnonzero(found["contact"] == 0.0)
    early = free[free < np.flatnonzero(found["contact"])[0]]
    assert len(early) >= 6
    assert (found["error"][early] < SURE * found["expected"][early]).all()
    assert (found["first_esnr"][early] > 10.0 * found["zeroth_esnr"][early]).all()


def test_after_stiff_contact_first_order_is_the_noisier_one(found: Study) -> None:
    assert found["first_variance"][-1] > 100.0 * found["zeroth_variance"][-1]
    assert found["first_esnr"][-1] < found["zeroth_esnr"][-1]
    soft, stiff = found["sweep_first_esnr"][:, -1]
    assert soft > 10.0 * stiff


def test_small_substeps_give_first_order_its_signal_back(found: Study) -> None:
    coarse, fine = found["refined_first_esnr"][:, -1]
    assert fine > 30.0 * coarse
    assert found["refined_error"][1, -1] < 0.3 * found["refined_expected"][0, -1]


def test_the_gradient_of_a_throw_matches_finite_differences() -> None:
    sim = Simulator(ball_model(1e4), num_worlds=3, dt=DT, substeps=SMALL.substeps, dtype=torch.float64)
    eps = 1e-6
    angle = torch.tensor([-0.7, -0.7 + eps, -0.7 - eps], dtype=torch.float64, requires_grad=True)
    state = State(sim.rest_state().q, 7.0 * torch.stack([angle.cos(), angle.sin()], dim=-1))
    for _ in range(35):  # after ground and wall
        state = sim.step(state)
    (slope,) = torch.autograd.grad(state.q[:, 0].sum(), angle)
    plus, minus = state.q[1, 0].item(), state.q[2, 0].item()
    assert slope[0].item() == pytest.approx((plus - minus) / (2.0 * eps), rel=1e-6)


def test_ground_and_wall_hold_the_ball(found: Study) -> None:
    x, z = found["paths"][..., 0], found["paths"][..., 1]
    deepest = 10.0 / np.sqrt(SMALL.stiffness)  # speed over frequency, for a mass of 1 kg
    assert x.max() < 1.75 + deepest
    assert z.min() > -deepest
    assert (np.diff(x[:, 0]) < 0.0).any(), "it comes back from the wall"
    assert (np.diff(z[:, 0]) > 0.0).any(), "and up from the ground"


def test_damping_and_viscosity_scale_with_stiffness() -> None:
    material = ball_model(1e5).contact_candidates[0].material
    assert (material.stiffness, material.damping, material.viscosity, material.friction) == (1e5, 100.0, 10.0, 0.9)
    assert {candidate.plane.name for candidate in ball_model().contact_candidates} == {"ground", "wall"}


def test_a_seed_repeats_a_study_and_another_does_not(found: Study) -> None:
    again = simulate_throws(SMALL)
    other = simulate_throws(replace(SMALL, seed=1))
    assert np.array_equal(found["error"], again["error"])
    assert not np.array_equal(found["error"], other["error"])


@pytest.mark.parametrize(
    "invalid",
    [
        {"samples": 1},
        {"horizon": 0},
        {"sigma": 0.0},
        {"stiffnesses": (1e4, -1.0)},
        {"stiffnesses": ()},
        {"refinements": ()},
        {"refinements": (8, 0)},
        {"substeps": 0},
    ],
)
def test_invalid_settings_are_refused(invalid: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(invalid))):
        BallSettings(**invalid)  # pyright: ignore[reportArgumentType]
