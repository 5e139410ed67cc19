"""Histories of actions and observations.

actions = ActionHistory(12, steps=2)
memory = {**actions.memory}
reward = {"action_rate_l2": rewards.weighted(-0.01, actions.action_rate_l2)}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ahac.core.checks import check_callable, check_int
from ahac.core.errors import InputError
from ahac.envs.draws import Draw
from ahac.envs.memory import Action, Memory, hidden_memory, memory_of
from ahac.envs.observations import values_of
from ahac.envs.task import ObsTerm
from ahac.sim import Real, World

__all__ = ["ActionHistory", "ObservationHistory"]

TERM = (
    "the term of the history or delay {!r} must not read memory, which is being updated when the term is evaluated; "
    "use a term of the state and the action, or a Memory of your own whose update reads its argument `memory`"
)
"""Error of a term that reads memory."""


@dataclass(frozen=True)
class ActionHistory:
    """The previous actions; before an episode they are zero."""

    num_actions: int
    """Size of an action."""
    steps: int = 2
    """How many actions are kept."""
    name: str = "actions"
    """Name of its memory."""

    def __post_init__(self) -> None:
        check_int("ActionHistory.num_actions", self.num_actions, 1)
        check_int("ActionHistory.steps", self.steps, 1)

    @property
    def memory(self) -> dict[str, Memory]:
        """The previous actions, the latest first."""
        return {self.name: Memory(self.num_actions * self.steps, update=self._update, owner=self)}

    def previous(self, world: World, steps: int = 1) -> Sequence[Real]:
        """Return the action some steps before the next one."""
        if not 1 <= steps <= self.steps:
            raise InputError(f"the history has {self.steps} actions, but this needs {steps}: ActionHistory(steps=...)")
        numbers = memory_of(self, world.memory, self.name)
        return numbers[(steps - 1) * self.num_actions : steps * self.num_actions]

    def observation(self, world: World, action: Action) -> list[Real]:
        """Observe the previous actions, the latest first."""
        return list(memory_of(self, world.memory, self.name))

    def action_rate_l2(self, world: World, action: Action) -> Real:
        """Squared change of the action, ‖a(t) − a(t−1)‖²; give it a negative weight."""
        return sum(((a - b) ** 2 for a, b in zip(action, self.previous(world), strict=True)), 0.0)

    def action_acc_l2(self, world: World, action: Action) -> Real:
        """Squared second difference of the action, ‖a(t) − 2 a(t−1) + a(t−2)‖²; give it a negative weight."""
        rows = zip(action, self.previous(world), self.previous(world, 2), strict=True)
        return sum(((a - 2.0 * b + c) ** 2 for a, b, c in rows), 0.0)

    def _update(self, world: World, action: Action, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        return [*action, *memory[self.name][: -self.num_actions]]


@dataclass(frozen=True)
class ObservationHistory:
    """The latest values of an observation term; an episode begins with copies of its first value.

    Args:
        term: Observation term of the state and the action, with or without noise; it must not read memory.
        size: How many numbers the term returns.
        steps: How many values are observed.
        name: Name of its memory.
    """

    term: ObsTerm
    size: int
    steps: int
    name: str

    def __post_init__(self) -> None:
        check_callable(f"term of {self.name!r}", self.term, "(world, action)")
        check_int(f"size of {self.name!r}", self.size, 1)
        check_int(f"steps of {self.name!r}", self.steps, 1)

    @property
    def memory(self) -> dict[str, Memory]:
        """The latest values, the latest first."""
        return {self.name: Memory(self.size * self.steps, start=self._start, update=self._update, owner=self)}

    def observation(self, world: World, action: Action) -> list[Real]:
        """Observe the latest values, the latest first."""
        return list(memory_of(self, world.memory, self.name))

    def _start(self, world: World, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        return self._value(world, [0.0] * world.model.nu) * self.steps

    def _update(self, world: World, action: Action, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        return [*self._value(world, action), *memory[self.name][: self.size * (self.steps - 1)]]

    def _value(self, world: World, action: Action) -> list[Real]:
        with hidden_memory(world, TERM.format(self.name)):
            return values_of(self.term, world, action)
