"""Unknowns of the solver for parameters of a model, their scales and their prior.

Residuals are nearly linear in most physical values, so these are the unknowns, between their bounds. Only parameters
whose numbers restrict each other, such as principal moments of inertia, use the free coordinates of
`Parameters.constrain`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.identification.solver import Coordinates, Prior

if TYPE_CHECKING:
    from ahac.sim import Parameters

__all__ = ["coordinates_of", "prior_of", "scales"]

TYPICAL = {"joint_offset": 0.1, "actuator_delay": 0.01}
"""Scales of parameters that are usually zero in a model file, by kind; 1 for all others."""
INSIDE = 1e-4
"""Distance from a bound that is not physical itself, relative to the parameter's scale."""


def coordinates_of(parameters: Parameters, device: torch.device) -> tuple[Coordinates, Tensor]:
    """Return the coordinates of the solver, and those of the default values."""
    values = parameters.defaults(1, device, torch.float64)[0]
    free = parameters.unconstrain(values)
    slopes = torch.autograd.functional.jacobian(parameters.constrain, free)
    assert isinstance(slopes, Tensor)
    coupled = (slopes - torch.diag(slopes.diagonal())).abs() > 0.0
    joined = coupled.any(dim=0) | coupled.any(dim=1)
    scale = scales(parameters, values)
    lower = torch.tensor(parameters.lower, dtype=torch.float64, device=device)
    upper = torch.tensor(parameters.upper, dtype=torch.float64, device=device)
    strict = torch.tensor([_excludes(parameters, values, i) for i in range(len(values))], device=device)
    lower = torch.where(strict, lower + INSIDE * scale, lower)
    unbounded = torch.full_like(lower, torch.inf)

    def to_values(z: Tensor) -> Tensor:
        return torch.where(joined, parameters.constrain(torch.where(joined, z, free)), z) if joined.any() else z.clone()

    coordinates = Coordinates(
        to_values, torch.where(joined, -unbounded, lower), torch.where(joined, unbounded, upper), joined
    )
    return coordinates, torch.where(joined, free, values)


def _excludes(parameters: Parameters, values: Tensor, column: int) -> bool:
    """Return whether the lower bound of a column is not physical itself, as a mass of zero."""
    if parameters.lower[column] == -torch.inf:
        return False
    at_bound = values.clone()
    at_bound[column] = parameters.lower[column]
    try:
        parameters.check(at_bound[None])
    except InputError:
        return True
    return False


def prior_of(parameters: Parameters, coordinates: Coordinates, z: Tensor, width: float) -> Prior:
    """Return the prior around the defaults, `width` times the scale of each parameter wide."""
    scale = scales(parameters, coordinates.to_values(z))
    deviation = width * torch.where(coordinates.joined, torch.ones_like(scale), scale)
    return Prior(z, torch.diag(deviation**-2))


def scales(parameters: Parameters, values: Tensor) -> Tensor:
    """Return the scale of each parameter: the larger of its default, its value and their mean over the same kind.

    Where these are zero, it is a typical value.
    """
    defaults = parameters.defaults(1, values.device, torch.float64)[0]
    size = torch.maximum(values.abs(), defaults.abs())
    kinds = [name.partition(":")[0] for name, count in parameters.sizes.items() for _ in range(count)]
    result = size.clone()
    for kind in dict.fromkeys(kinds):
        columns = [i for i, other in enumerate(kinds) if other == kind]
        mean = float(size[columns].mean())
        least = max(mean, TYPICAL.get(kind, 0.0)) or 1.0
        result[columns] = result[columns].clamp_min(least)
    return result
