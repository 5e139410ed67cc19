"""Delays of actions and observations, fixed or drawn for each episode.

delay = ActionDelay(12, steps=(0, 2))
memory, control = {**delay.memory}, delay.control
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ahac.core.checks import check_callable, check_int
from ahac.core.errors import InputError
from ahac.envs.components.history import ObservationHistory
from ahac.envs.draws import Draw
from ahac.envs.memory import Action, Memory, memory_of
from ahac.envs.task import ObsTerm
from ahac.sim import Real, World, where

__all__ = ["ActionDelay", "ObservationDelay"]

Steps = int | Sequence[int]
"""A number of control steps, or the bounds (least, most) between which it is drawn for each episode."""


@dataclass(frozen=True)
class ActionDelay:
    """Actuators see an action some control steps late; before an episode, actions are zero."""

    num_actions: int
    """Size of an action."""
    steps: Steps = 1
    """Control steps of delay, or the least and most of a delay drawn for each episode."""
    name: str = "action delay"
    """Name of its memory."""

    def __post_init__(self) -> None:
        check_int("ActionDelay.num_actions", self.num_actions, 1)
        object.__setattr__(self, "steps", _check_steps("ActionDelay.steps", self.steps))

    @property
    def memory(self) -> dict[str, Memory]:
        """The delay [steps], then the previous actions, the latest first."""
        _, most = _bounds(self.steps)
        return {self.name: Memory(1 + most * self.num_actions, start=self._start, update=self._update, owner=self)}

    def control(self, world: World, action: Action) -> list[Real]:
        """Return the delayed action."""
        self._check(action)
        delay, *previous = memory_of(self, world.memory, self.name)
        return _delayed([*action, *previous], self.num_actions, _bounds(self.steps), delay)

    def _check(self, action: Action) -> None:
        if len(action) != self.num_actions:
            raise InputError(
                f"ActionDelay.num_actions must be {len(action)}, the task's number of actions, got {self.num_actions}"
            )

    def _start(self, world: World, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        least, most = _bounds(self.steps)
        return [_draw_steps(draw, least, most), *[0.0] * (most * self.num_actions)]

    def _update(self, world: World, action: Action, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        self._check(action)
        delay, *previous = memory[self.name]
        return [delay, *[*action, *previous][: len(previous)]]


@dataclass(frozen=True)
class ObservationDelay:
    """An observation term that is observed some control steps late; before an episode, it has its first value.

    Args:
        term: Observation term of the state and the action, with or without noise; it must not read memory.
        size: How many numbers the term returns.
        steps: Control steps of delay, or the least and most of a delay drawn for each episode.
        name: Name of its memory.
        history: How many values are observed: the delayed one, then those before it.
    """

    term: ObsTerm
    size: int
    steps: Steps
    name: str
    history: int = 1

    def __post_init__(self) -> None:
        check_callable(f"term of {self.name!r}", self.term, "(world, action)")
        check_int(f"size of {self.name!r}", self.size, 1)
        check_int(f"history of {self.name!r}", self.history, 1)
        object.__setattr__(self, "steps", _check_steps(f"steps of {self.name!r}", self.steps))

    @property
    def memory(self) -> dict[str, Memory]:
        """The latest values, and under a name of its own the delay [steps]."""
        least, most = _bounds(self.steps)
        history = ObservationHistory(self.term, self.size, most + self.history, self.name)
        delay = Memory(1, start=lambda world, memory, draw: _draw_steps(draw, least, most), owner=self)
        return {self.name: replace(history.memory[self.name], owner=self), self._delay: delay}

    def observation(self, world: World, action: Action) -> list[Real]:
        """Observe the delayed value, then those before it."""
        (delay,) = memory_of(self, world.memory, self._delay)
        values, bounds = memory_of(self, world.memory, self.name), _bounds(self.steps)
        rows = (_delayed(values[k * self.size :], self.size, bounds, delay) for k in range(self.history))
        return [value for row in rows for value in row]

    @property
    def _delay(self) -> str:
        return f"{self.name} delay"


def _check_steps(name: str, steps: Steps) -> Steps:
    """Return a number of steps, or a tuple (least, most) from any sequence of two."""
    if isinstance(steps, Sequence) and (len(steps) != 2 or isinstance(steps, str)):
        raise InputError(f"{name} must be a whole number or two of them (least, most), got {steps!r}")
    least, most = (check_int(name, bound, 0) for bound in _bounds(steps))
    if least > most:
        raise InputError(f"{name} must be (least, most) with least at most most, got {steps!r}")
    return (least, most) if isinstance(steps, Sequence) else least


def _bounds(steps: Steps) -> tuple[int, int]:
    """Return the least and the most control steps of a delay."""
    least, most = steps if isinstance(steps, Sequence) else (steps, steps)
    return least, most


def _draw_steps(draw: Draw, least: int, most: int) -> Real:
    """Draw a whole number of steps, plus a fraction that `_delayed` ignores."""
    return least + 0.5 if least == most else draw(least, most + 1)


def _delayed(values: Sequence[Real], size: int, bounds: tuple[int, int], delay: Real) -> list[Real]:
    """Return the value of some steps ago from values of the given size, the latest first."""
    least, most = bounds
    found = list(values[least * size : (least + 1) * size])
    for k in range(least + 1, most + 1):
        older = values[k * size : (k + 1) * size]
        found = [where(delay < k, a, b) for a, b in zip(found, older, strict=True)]
    return found
