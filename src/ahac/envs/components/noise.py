"""Sensor noise: noisy(term, std=0.05) or noisy(term, uniform=0.1)."""

from __future__ import annotations

from functools import wraps

from ahac.core.checks import check_callable, check_finite
from ahac.core.errors import InputError
from ahac.envs.memory import Action
from ahac.envs.observations import values_of
from ahac.envs.task import ObsTerm
from ahac.sim import Real, World

__all__ = ["noisy"]


def noisy(term: ObsTerm, std: float | None = None, uniform: float | None = None) -> ObsTerm:
    """Add noise to all numbers of an observation term, new at every step.

    Args:
        term: Observation term.
        std: Standard deviation of normal noise.
        uniform: Noise is uniform between −uniform and +uniform.
    """
    check_callable("term of noisy", term, "(world, action)")
    if (std is None) == (uniform is None):
        raise InputError(f"noisy takes either std or uniform, got std={std!r} and uniform={uniform!r}")
    size = check_finite("noise", uniform if std is None else std, least=0.0)

    @wraps(term)  # so that exports find the term without noise
    def with_noise(world: World, action: Action) -> list[Real]:
        draw = world.draw
        numbers = values_of(term, world, action)
        return [x + (draw(-size, size) if std is None else draw.normal(0.0, size)) for x in numbers]

    return with_noise
