"""Levenberg–Marquardt over parameters and starts; the starts are eliminated segment by segment."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.identification.shooting import NormalEquations, Shooting

__all__ = ["Coordinates", "Prior", "Solution", "reduced", "rms", "solve"]

logger = logging.getLogger(__name__)

FIRST_DAMPING = 1e-3
LARGEST_DAMPING = 1e8
TOLERANCE = 0.05
"""A solution has converged if a step lowers ½ Σ (r/σ)² by less, that is, changes it by a third of a standard error."""
SMALLEST_NOISE = 1e-4
"""Lower bound of a channel's noise, relative to the spread of its signal: sensors resolve no more."""


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Unknowns z of the solver and the physical values p(z) of the parameters."""

    to_values: Callable[[Tensor], Tensor]
    """p(z), differentiable."""
    lower: Tensor
    """[P] lower bounds of z."""
    upper: Tensor
    """[P] upper bounds of z."""
    joined: Tensor
    """[P] whether a value depends on several coordinates."""
    fixed: bool = False
    """Whether the parameters stay as they are, and only the starts are unknown."""

    def jacobian(self, z: Tensor) -> Tensor:
        """Return ∂p/∂z [P, P]."""
        return torch.autograd.functional.jacobian(self.to_values, z)


@dataclass(frozen=True, eq=False)
class Prior:
    """A normal distribution of z, which holds what the data do not determine near the defaults."""

    mean: Tensor
    """[P]"""
    information: Tensor
    """[P, P] inverse of the covariance."""

    def gradient(self, z: Tensor) -> Tensor:
        """Return the gradient of `cost`."""
        return self.information @ (z - self.mean)

    def cost(self, z: Tensor) -> float:
        """Return ½ (z − mean)ᵀ information (z − mean)."""
        return float(0.5 * (z - self.mean) @ self.gradient(z))


@dataclass(frozen=True, eq=False)
class Solution:
    """Estimate of parameters and starts, and the linearization there."""

    z: Tensor
    starts: Tensor
    sigma: Tensor
    """[channels] standard deviation of the residuals."""
    residuals: Tensor
    """[K + 1, S, channels]"""
    equations: NormalEquations
    """Normal equations in terms of z and the starts, divided by `sigma`."""
    iterations: int
    converged: bool


@dataclass(frozen=True, eq=False)
class _Point:
    z: Tensor
    starts: Tensor
    states: Tensor
    residuals: Tensor

    def cost(self, sigma: Tensor, prior: Prior) -> float:
        total = float(0.5 * ((self.residuals / sigma) ** 2).sum()) + prior.cost(self.z)
        return total if total == total else float("inf")


def solve(
    problem: Shooting,
    coordinates: Coordinates,
    prior: Prior,
    z: Tensor,
    *,
    starts: Tensor | None = None,
    sigma: Tensor | None = None,
    max_iterations: int = 100,
) -> Solution:
    """Return the most likely parameters, starts and noise: those that minimize Σ log σ of all residuals.

    Every iteration takes the current residuals of a channel as its noise σ and lowers ½ Σ (r/σ)². That lowers the sum
    of the logarithms as well.

    Args:
        problem: Simulation of the segments.
        coordinates: Unknowns of the parameters.
        prior: Prior of these unknowns.
        z: First guess.
        starts: First guess of the starts; the measured ones by default.
        sigma: Noise of each channel, if it is known.
        max_iterations: Maximum number of linearizations.
    """
    segments = problem.segments
    point = _evaluate(problem, coordinates, z, segments.starts if starts is None else starts)
    if not torch.isfinite(point.residuals).all():
        bad = int((~torch.isfinite(point.residuals)).any(dim=0).any(dim=1).sum())
        raise InputError(
            f"{bad} of {segments.count} segments diverge with the default parameters; use shorter segments, more "
            "substeps or the implicit integrator, and check units and signs of the recording"
        )
    search = _Search(problem, coordinates, prior, sigma)
    while search.iterations < max_iterations and not search.converged:
        point = search.iterate(point)
    noise = search.noise(point)
    equations = search.linearized(point, noise)
    return Solution(point.z, point.starts, noise, point.residuals, equations, search.iterations, search.converged)


def rms(residuals: Tensor) -> Tensor:
    """Return the root mean square of each channel."""
    return residuals.flatten(0, 1).square().mean(dim=0).sqrt()


def _evaluate(problem: Shooting, coordinates: Coordinates, z: Tensor, starts: Tensor) -> _Point:
    p = coordinates.to_values(z)
    states = problem.simulate(p, starts)
    return _Point(z, starts, states, problem.residuals(p, states))


class _Search:
    """The iterations of Levenberg–Marquardt."""

    def __init__(self, problem: Shooting, coordinates: Coordinates, prior: Prior, sigma: Tensor | None) -> None:
        self.problem = problem
        self.coordinates = coordinates
        self.prior = prior
        self.sigma = sigma
        self.smallest = SMALLEST_NOISE * problem.spread()
        self.iterations = 0
        self.converged = False
        self.damping = FIRST_DAMPING

    def noise(self, point: _Point) -> Tensor:
        """Return the noise of each channel."""
        return torch.maximum(rms(point.residuals), self.smallest) if self.sigma is None else self.sigma

    def iterate(self, point: _Point) -> _Point:
        """Return the point after one linearization."""
        self.iterations += 1
        sigma = self.noise(point)
        cost = point.cost(sigma, self.prior)
        logger.debug("iteration %d: cost %.6g, damping %.1e", self.iterations, cost, self.damping)
        return self._descend(point, self.linearized(point, sigma), sigma, cost)

    def linearized(self, point: _Point, sigma: Tensor) -> NormalEquations:
        """Return the normal equations in terms of z."""
        p = self.coordinates.to_values(point.z)
        equations = self.problem.linearize(p, point.states, sigma)
        size = len(p)
        transform = torch.eye(equations.gradient.shape[1], dtype=p.dtype, device=p.device)
        transform[:size, :size] = self.coordinates.jacobian(point.z)
        return replace(
            equations,
            hessian=transform.T @ equations.hessian @ transform,
            gradient=equations.gradient @ transform,
        )

    def _descend(self, point: _Point, equations: NormalEquations, sigma: Tensor, cost: float) -> _Point:
        """Return the point after an accepted step, or the same one if there is none."""
        while self.damping <= LARGEST_DAMPING:
            z_step, start_step, promised = self._step(point.z, equations)
            z = torch.clamp(point.z + z_step, self.coordinates.lower, self.coordinates.upper)
            starts = self.problem.dynamics.move(point.starts, start_step)
            trial = _evaluate(self.problem, self.coordinates, z, starts)
            gained = cost - trial.cost(sigma, self.prior)
            if gained > 0.0:
                self.damping = max(self.damping * (0.1 if gained > 0.25 * promised else 1.0), 1e-12)
                self.converged = min(promised, gained) < TOLERANCE
                return trial
            if promised < TOLERANCE:
                break
            self.damping *= 10.0
        self.converged = True
        self.damping = FIRST_DAMPING
        return point

    def _step(self, z: Tensor, equations: NormalEquations) -> tuple[Tensor, Tensor, float]:
        """Return steps of z and the starts, and the decrease of the cost that they promise."""
        size = len(z)
        h, g = equations.hessian, equations.gradient
        damped = h + self.damping * torch.diag_embed(h.diagonal(dim1=1, dim2=2))
        gain, back = _eliminate(damped, size)
        matrix = (damped[:, :size, :size] - gain @ damped[:, size:, :size]).sum(dim=0)
        slope = (g[:, :size] - (gain @ g[:, size:, None])[..., 0]).sum(dim=0)
        matrix = matrix + self.prior.information + self.damping * torch.diag(self.prior.information.diagonal())
        slope = slope + self.prior.gradient(z)
        held = ((z <= self.coordinates.lower) & (slope > 0.0)) | ((z >= self.coordinates.upper) & (slope < 0.0))
        if self.coordinates.fixed:
            held = torch.ones_like(held)
        matrix = torch.where(held[:, None] | held[None, :], torch.diag(matrix.diagonal()), matrix)
        z_step = -torch.where(held, 0.0, _solve(matrix, torch.where(held, 0.0, slope)))
        start_step = -back(g[:, size:] + damped[:, size:, :size] @ z_step)
        step = torch.cat([z_step.expand(len(g), -1), start_step], dim=1)
        linear = (g * step).sum() + (self.prior.gradient(z) * z_step).sum()
        curved = (step[:, None] @ h @ step[..., None]).sum() + z_step @ self.prior.information @ z_step
        return z_step, start_step, float(-linear - 0.5 * curved)


def _solve(matrix: Tensor, right: Tensor) -> Tensor:
    """Solve a positive definite system, scaled to a unit diagonal."""
    scale = matrix.diagonal().rsqrt()
    factor = torch.linalg.cholesky_ex(matrix * scale[:, None] * scale + 1e-14 * torch.eye(len(right)).to(matrix)).L
    return scale * torch.cholesky_solve((scale * right)[:, None], factor)[:, 0]


def _eliminate(hessian: Tensor, size: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return H_zξ H_ξξ⁻¹ of every segment, and a function that multiplies by H_ξξ⁻¹."""
    block = hessian[:, size:, size:]
    scale = block.diagonal(dim1=1, dim2=2).clamp_min(1e-300).rsqrt()
    unit = torch.eye(block.shape[1], dtype=block.dtype, device=block.device)
    factor = torch.linalg.cholesky_ex(block * scale[:, :, None] * scale[:, None] + 1e-12 * unit).L
    scaled = scale[:, :, None] * hessian[:, size:, :size]
    gain = (scale[:, :, None] * torch.cholesky_solve(scaled, factor)).transpose(1, 2)

    def back(right: Tensor) -> Tensor:
        return scale * torch.cholesky_solve((scale * right)[..., None], factor)[..., 0]

    return gain, back


def reduced(equations: NormalEquations, size: int) -> tuple[Tensor, Tensor]:
    """Return information matrix [S, P, P] and gradient [S, P] of z for each segment, after eliminating its start."""
    h, g = equations.hessian, equations.gradient
    gain, _ = _eliminate(h, size)
    return h[:, :size, :size] - gain @ h[:, size:, :size], g[:, :size] - (gain @ g[:, size:, None])[..., 0]
