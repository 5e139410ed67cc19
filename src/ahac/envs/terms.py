"""Evaluation of the terms of a task while it is traced; errors name the term."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ahac.core.errors import InputError, TraceError
from ahac.envs.observations import values_of
from ahac.envs.task import ObsTerm, RewardTerm
from ahac.sim import Real, Scalar, World

__all__ = ["evaluate_observation", "evaluate_reward", "scalar"]


def evaluate_observation(name: str, term: ObsTerm, world: World, action: Sequence[Real]) -> list[Real]:
    """Return the numbers of an observation term or signal."""
    with _naming(f"observation {name!r}"):
        return [scalar(name, x) for x in values_of(term, world, action)]


def evaluate_reward(name: str, term: RewardTerm, world: World, action: Sequence[Real]) -> Real:
    """Return the number of a reward term."""
    with _naming(f"reward {name!r}"):
        return scalar(name, term(world, action))


def scalar(name: str, value: object) -> Real:
    """Return a value that must be a number."""
    if isinstance(value, Scalar | float | int):
        return value
    raise TraceError(
        f"{name!r} must return numbers such as world.position('torso').z - 0.3, not comparisons or tensors; got "
        f"{type(value).__name__}"
    )


@contextmanager
def _naming(term: str) -> Iterator[None]:
    try:
        yield
    except (InputError, TraceError) as error:
        raise type(error)(f"{term}: {error}") from error
