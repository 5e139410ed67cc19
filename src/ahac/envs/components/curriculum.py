"""A curriculum: a level that rises with success and falls without it.

curriculum = Curriculum(command.track_lin_vel_xy("trunk"), threshold=350.0)
command = VelocityCommand(level="level")
memory = {**curriculum.memory, **command.memory}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ahac.core.checks import check_callable, check_finite, check_positive
from ahac.core.errors import InputError
from ahac.envs.draws import Draw
from ahac.envs.memory import Action, Memory, hidden_memory, memory_of
from ahac.envs.task import RewardTerm
from ahac.sim import Real, World, clip, stop_gradient, where

__all__ = ["Curriculum"]

SCORE = (
    "the score of a Curriculum must not read world.after.memory, which is being updated when the score is evaluated; "
    "use a reward term that reads world.memory only"
)
"""Error of a score that reads the memory after the step."""


@dataclass(frozen=True)
class Curriculum:
    """A level between two bounds, for each world: it rises after an episode that succeeded and falls after others.

    An episode succeeds if a score sums to a threshold or more over its steps, so that one that ends early fails.
    """

    score: RewardTerm
    """Score of a step: a reward term. It must not read the memory after the step, as `FootContacts.feet_air_time` does:
    memory is being updated when the score is evaluated."""
    threshold: float
    """Sum of scores over an episode that is a success."""
    start: float = 0.1
    """Level of the first episode."""
    bounds: Sequence[float] = (0.1, 1.0)
    """Lowest and highest level."""
    up: float = 0.1
    """Change of the level after a success."""
    down: float = 0.1
    """Change of the level after a failure."""
    name: str = "level"
    """Name of its memory."""

    def __post_init__(self) -> None:
        check_callable("Curriculum.score", self.score, "(world, action)")
        check_finite("Curriculum.threshold", self.threshold)
        check_positive("Curriculum.up", self.up)
        check_finite("Curriculum.down", self.down, least=0.0)
        if not isinstance(self.bounds, Sequence) or len(self.bounds) != 2:
            raise InputError(f"Curriculum.bounds must be two numbers (low, high), got {self.bounds!r}")
        low, high = (check_finite("Curriculum.bounds", bound) for bound in self.bounds)
        object.__setattr__(self, "bounds", (low, high))
        if not low <= check_finite("Curriculum.start", self.start) <= high:
            raise InputError(f"Curriculum.start must be within the bounds {self.bounds}, got {self.start!r}")

    @property
    def memory(self) -> dict[str, Memory]:
        """The level, the sum of scores and the number of steps of the episode, and 1 after the first start."""
        return {self.name: Memory(4, start=self._start, update=self._update, owner=self)}

    def value(self, world: World) -> Real:
        """Return the level."""
        return memory_of(self, world.memory, self.name)[0]

    def next_level(self, memory: Mapping[str, Sequence[Real]]) -> Real:
        """Return the level of the episode that begins, for resets and starts of memory.

        Args:
            memory: All memory at the end of the previous episode, as a reset and a start receive it.
        """
        level, score, steps, started = memory_of(self, memory, self.name)
        changed = clip(where(score < self.threshold, level - self.down, level + self.up), *self.bounds)
        # An episode without a step, as between the end of one and `env.reset()`, does not change the level.
        return where(started > 0.5, where(steps > 0.5, changed, level), self.start)

    def observation(self, world: World, action: Action) -> Real:
        """Observe the level."""
        return self.value(world)

    def _start(self, world: World, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        return [self.next_level(memory), 0.0, 0.0, 1.0]

    def _update(self, world: World, action: Action, memory: Mapping[str, Sequence[Real]], draw: Draw) -> list[Real]:
        assert world.before is not None, "memory is updated after a step"
        level, score, steps, started = memory[self.name]
        with hidden_memory(world, SCORE):
            gained = self.score(world.before, action)
        return [level, score + stop_gradient(gained), steps + 1.0, started]
