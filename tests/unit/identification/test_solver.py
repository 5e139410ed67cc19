"""The estimator on a pendulum in plain torch: exact data, noise, delays, offsets and unknown combinations."""

import torch
from torch import Tensor

from ahac.identification.dynamics import delayed_controls
from ahac.identification.segments import Segments
from ahac.identification.shooting import Shooting
from ahac.identification.solver import Solution, reduced, solve
from ahac.identification.statistics import autocorrelation, covariance, undetermined
from support.torch_pendulum import LABELS, NOISE, SCALE, START, TRUE, Pendulum, coordinates, observation, prior, record

KNOWN = [0, 1, 4, 5]
"""Parameters that the data determine on their own."""


def fit(segments: Segments, channels: int = 2) -> Solution:
    return solve(Shooting(Pendulum(), segments, observation(channels)), coordinates(), prior(), START)


def deviations(solution: Solution) -> Tensor:
    information, gradients = reduced(solution.equations, len(TRUE))
    unknowns = len(TRUE) + solution.starts.numel()
    matrix = covariance(information, gradients, prior().information, solution.residuals.numel(), unknowns)
    return matrix.diagonal().sqrt()


def test_exact_data_give_the_true_parameters() -> None:
    solution = fit(record(noise=0.0))
    assert solution.converged
    torch.testing.assert_close(solution.z[KNOWN], TRUE[KNOWN], rtol=1e-4, atol=0.0)
    torch.testing.assert_close(solution.z[2] + solution.z[3], TRUE[2] + TRUE[3], rtol=1e-4, atol=0.0)


def test_noise_is_estimated_and_intervals_cover_the_truth() -> None:
    errors = []
    for seed in range(4):
        solution = fit(record(noise=1.0, seed=seed))
        torch.testing.assert_close(solution.sigma, NOISE, rtol=0.1, atol=0.0)
        assert autocorrelation(solution.residuals).abs().max() < 0.2, "residuals of a correct model are noise"
        errors.append(((solution.z - TRUE) / deviations(solution))[KNOWN])
    scatter = torch.stack(errors).square().mean().sqrt()
    assert 0.5 < scatter < 1.6, "errors are about one standard error"


def test_velocities_need_not_be_measured() -> None:
    solution = fit(record(noise=1.0, channels=1), channels=1)
    torch.testing.assert_close(solution.z[KNOWN], TRUE[KNOWN], rtol=0.05, atol=0.0)


def test_unknown_combinations_are_listed() -> None:
    solution = fit(record(noise=1.0))
    information, _ = reduced(solution.equations, len(TRUE))
    (unused, masses), directions = undetermined(information.sum(dim=0), SCALE, LABELS)
    assert directions.shape == (2, len(LABELS))
    assert str(unused) == "unused"
    assert set(masses.labels) == {"mass1", "mass2"}
    assert masses.coefficients[0] * masses.coefficients[1] < 0.0, "the data determine the sum, not the difference"
    # The prior keeps what the data do not determine at the defaults.
    torch.testing.assert_close(solution.z[6], START[6])


def test_unknown_combinations_are_not_mixed() -> None:
    """Two pairs act alike, a joint's damping and its servo's; the small term makes eigenvectors mix all four."""
    effect = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]], dtype=torch.float64)
    mixing = torch.tensor([[1.0, -1.0, 1.0, -1.0]], dtype=torch.float64)
    information = 1e4 * effect.T @ effect + 1e-6 * mixing.T @ mixing
    labels = ("joint 1", "servo 1", "joint 2", "servo 2")
    found, directions = undetermined(information, torch.ones(4, dtype=torch.float64), labels)
    assert directions.abs().min() > 0.1, "otherwise this tests nothing"
    assert {frozenset(each.labels) for each in found} == {frozenset(labels[:2]), frozenset(labels[2:])}
    for each in found:
        assert abs(sum(each.coefficients)) < 1e-6
        torch.testing.assert_close(each.deviation, (1e-6 * 2.0) ** -0.5, rtol=1e-3, atol=0.0)
    torch.testing.assert_close(directions @ directions.T, torch.eye(2, dtype=torch.float64))


def test_bounds_hold() -> None:
    segments = record(noise=1.0)
    narrow = coordinates()
    narrow.upper[1] = 0.3
    solution = solve(Shooting(Pendulum(), segments, observation()), narrow, prior(), START)
    assert solution.z[1] == 0.3
    assert solution.converged


def test_linearization_is_the_derivative_of_the_residuals() -> None:
    segments = record(noise=1.0, count=3, steps=20)
    problem = Shooting(Pendulum(), segments, observation())
    sigma = torch.tensor([0.1, 2.0], dtype=torch.float64)
    equations = problem.linearize(START, problem.simulate(START, segments.starts), sigma)

    def cost(p: Tensor, starts: Tensor) -> Tensor:
        return 0.5 * (problem.residuals(p, problem.simulate(p, starts)) / sigma).square().sum()

    step = 1e-6
    for i in range(len(START)):
        unit = step * torch.eye(len(START), dtype=torch.float64)[i]
        slope = (cost(START + unit, segments.starts) - cost(START - unit, segments.starts)) / (2.0 * step)
        torch.testing.assert_close(equations.gradient[:, i].sum(), slope, rtol=1e-5, atol=1e-6)
    for i in range(2):
        unit = step * torch.eye(2, dtype=torch.float64)[i]
        slope = (cost(START, segments.starts + unit) - cost(START, segments.starts - unit)) / (2.0 * step)
        torch.testing.assert_close(equations.gradient[:, len(START) + i].sum(), slope, rtol=1e-5, atol=1e-6)


def test_delayed_controls_interpolate_held_samples() -> None:
    history = torch.arange(8, dtype=torch.float64)[None, :, None]
    late, slope = delayed_controls(history, torch.tensor(0.025), 0.01, steps=4)
    torch.testing.assert_close(late[0, :, 0], torch.arange(4, dtype=torch.float64) + 4.0 - 2.5)
    torch.testing.assert_close(slope, torch.full_like(slope, -100.0))
