"""The fit of a robot's parameters to segments of recordings, and what it says about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ahac.core.text import listed
from ahac.identification import statistics
from ahac.identification.coordinates import coordinates_of, prior_of, scales
from ahac.identification.result import Channel
from ahac.identification.segments import Segments
from ahac.identification.shooting import Shooting
from ahac.identification.simulated import SimulatedRobot, observation_of
from ahac.identification.solver import Solution, reduced, rms, solve
from ahac.identification.statistics import Combination

if TYPE_CHECKING:
    from ahac.sim import Parameters

__all__ = ["Estimates", "Fit"]

CORRELATED = 0.3
"""Autocorrelation of residuals from which on they are not taken for noise."""
NEGLIGIBLE = 5e-4
"""Residuals that are smaller than this share of the signal are not tested for autocorrelation."""
INTERVAL = 1.959964
"""Half width of a 95 % interval, in standard errors."""
START_ITERATIONS = 5
"""Maximum number of linearizations that fit the starts of held-out segments."""
HELD = 0.01
"""Standard deviation, relative to the scales, of the prior for combinations that the data do not determine."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates and their statistics, as fields of an `Identification`."""

    values: Tensor
    standard_errors: Tensor
    intervals: Tensor
    correlation: Tensor
    undetermined: tuple[Combination, ...]
    at_bounds: tuple[str, ...]


class Fit:
    """The least-squares problem of a robot, for any segments."""

    def __init__(
        self, parameters: Parameters, robot: SimulatedRobot, dt: float, prior: float, max_iterations: int
    ) -> None:
        self.parameters = parameters
        self.robot = robot
        self.dt = dt
        self.max_iterations = max_iterations
        self.coordinates, self.z = coordinates_of(parameters, robot.device)
        self.prior = prior_of(parameters, self.coordinates, self.z, prior)

    def problem(self, segments: Segments) -> Shooting:
        """Return the shooting problem of some segments."""
        device = self.robot.device
        measured, starts, controls = (x.to(device) for x in (segments.measured, segments.starts, segments.controls))
        model = self.parameters.model
        channels = segments.measured.shape[2] + model.nv - model.nq
        observation = observation_of(self.parameters, channels, self.dt, device)
        return Shooting(self.robot, Segments(measured, starts, controls), observation)

    def solve(self, segments: Segments) -> tuple[Solution, list[Combination]]:
        """Estimate parameters and starts; return what the data do not determine, which stays at the defaults."""
        problem = self.problem(segments)
        found = solve(problem, self.coordinates, self.prior, self.z, max_iterations=self.max_iterations)
        information, _ = reduced(found.equations, self.parameters.size)
        scale = self._scale(found.z)
        combinations, directions = statistics.undetermined(
            information.sum(dim=0).cpu(), scale.cpu(), self.parameters.labels
        )
        if not combinations:
            return found, []
        rows = directions.to(scale) / scale / HELD
        held = replace(self.prior, information=self.prior.information + rows.T @ rows)
        again = solve(
            problem,
            self.coordinates,
            held,
            found.z,
            starts=found.starts,
            sigma=found.sigma,
            max_iterations=self.max_iterations,
        )
        return replace(again, iterations=found.iterations + again.iterations), combinations

    def _scale(self, z: Tensor) -> Tensor:
        """Return the scales of the solver's unknowns."""
        scale = scales(self.parameters, self.coordinates.to_values(z))
        return torch.where(self.coordinates.joined, torch.ones_like(scale), scale)

    def prediction_errors(self, segments: Segments, solution: Solution) -> tuple[Tensor, Tensor]:
        """Return the RMS errors [channels] with default and estimated parameters; only the starts are fitted."""
        problem = self.problem(segments)
        fixed = replace(self.coordinates, fixed=True)
        before, after = (
            solve(problem, fixed, self.prior, z, sigma=problem.spread(), max_iterations=START_ITERATIONS)
            for z in (self.z, solution.z)
        )
        return rms(before.residuals), rms(after.residuals)

    def estimates(self, solution: Solution, undetermined: Sequence[Combination]) -> Estimates:
        """Return values and intervals."""
        parameters, size = self.parameters, self.parameters.size
        values = self.coordinates.to_values(solution.z).cpu()
        slopes = self.coordinates.jacobian(solution.z).cpu()
        information, gradients = (x.cpu() for x in reduced(solution.equations, size))
        samples, unknowns = solution.residuals.numel(), size + solution.starts.numel()
        prior = self.prior.information.cpu()
        covariance = slopes @ statistics.covariance(information, gradients, prior, samples, unknowns) @ slopes.T
        errors = covariance.diagonal().sqrt()
        lower, upper = (torch.tensor(x, dtype=torch.float64)[:, None] for x in (parameters.lower, parameters.upper))
        ends = torch.stack([values - INTERVAL * errors, values + INTERVAL * errors], dim=1)
        bound = ((solution.z <= self.coordinates.lower) | (solution.z >= self.coordinates.upper)).tolist()
        return Estimates(
            values=values,
            standard_errors=errors,
            intervals=torch.minimum(torch.maximum(ends, lower), upper),
            correlation=covariance / (errors[:, None] * errors).clamp_min(1e-300),
            undetermined=tuple(undetermined),
            at_bounds=tuple(label for label, hit in zip(parameters.labels, bound, strict=True) if hit),
        )

    def channels(self, solution: Solution, errors: tuple[Tensor, Tensor]) -> tuple[Channel, ...]:
        """Return how well the simulation follows each measured quantity."""
        numbers = (rms(solution.residuals), statistics.autocorrelation(solution.residuals), *errors)
        rows = zip(*(x.tolist() for x in numbers), strict=True)
        names = channel_names(self.parameters)
        return tuple(
            Channel(name=name, rms=size, autocorrelation=correlation, before=before, after=after)
            for name, (size, correlation, before, after) in zip(names, rows, strict=False)
        )

    def warnings(
        self, solution: Solution, estimates: Estimates, channels: Sequence[Channel], spread: Tensor
    ) -> tuple[str, ...]:
        """Return reasons to doubt the estimates."""
        found = []
        if not solution.converged:
            found.append(
                f"no convergence within {solution.iterations} iterations; allow more (max_iterations=, "
                "--max-iterations)"
            )
        odd = [
            c
            for c, signal in zip(channels, spread.tolist(), strict=True)
            if c.autocorrelation > CORRELATED and c.rms > NEGLIGIBLE * signal
        ]
        if odd:
            worst = max(c.autocorrelation for c in odd)
            found.append(
                f"residuals of {listed([c.name for c in odd])} are not noise: consecutive ones are correlated (up to "
                f"{worst:.2f}). The model does not explain the motion; intervals do not cover errors of the model. "
                "Declare more parameters, or check the model"
            )
        worse = [c.name for c in channels if c.after > 1.05 * c.before]
        if worse:
            found.append(f"estimates predict {listed(worse)} worse than the defaults; record more data")
        if estimates.at_bounds:
            found.append(f"estimates at a bound: {listed(estimates.at_bounds)}; the model may lack something")
        if estimates.undetermined:
            found.append(
                f"the data do not determine {_counted(len(estimates.undetermined), 'combination')} of parameters, "
                "which stay near the defaults. Excite the robot more, or declare fewer parameters"
            )
        return tuple(found)


def channel_names(parameters: Parameters) -> list[str]:
    """Return names of all positions and velocities, in the coordinates of velocities."""
    names = []
    for joint in parameters.model.joints:
        names += [joint.name] if len(joint.dofs) == 1 else [f"{joint.name}.{axis}" for axis in "xyz"]
    return [f"{kind} {name}" for kind in "qv" for name in names]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
