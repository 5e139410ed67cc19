"""Memory of a task: named numbers of each world that last from step to step.

    Memory(3, start=draw_command, update=change_command)

One step of the environment proceeds in this order:

    o(t)                 observation of the world w(t), with the memory m(t)
    a(t)                 action; controllers and force laws see m(t) in all substeps
    w(t + 1)             world after the step
    m(t + 1)             update(w(t + 1), a(t), m(t), draw); all entries are updated at once, from the old values
    r(w(t), a(t))        reward; `world.memory` is m(t), and `world.after.memory` is m(t + 1)
    alive, o(t + 1)      see m(t + 1)

Where an episode ends, start(first world, last memory, draw) gives the memory with which the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from ahac.core.checks import check_finite, check_int
from ahac.core.errors import InputError, TraceError
from ahac.envs.draws import Draw
from ahac.sim import Real, Scalar, Vec3, World

__all__ = ["Action", "Memory", "MemoryValues", "StartFn", "UpdateFn", "hidden_memory", "memory_of"]

Action = Sequence[Real]
"""Action of one world, clipped to [-1, 1]."""


class MemoryValues(dict[str, list[Real]]):
    """Values of a task's memory by name, as traced functions see them."""

    def __init__(self, entries: Mapping[str, Memory], values: Iterable[tuple[str, list[Real]]] = ()) -> None:
        """Name the values of a task's memory entries."""
        super().__init__(values)
        self.entries = entries

    def __missing__(self, name: str) -> NoReturn:
        raise TraceError(
            f"the task has no memory named {name!r}; it has: {', '.join(self) or 'none'}. Add it to Task.memory; for a "
            "part such as VelocityCommand, memory={**part.memory}"
        )


class _Hidden(Mapping[str, Sequence[Real]]):
    """Memory that must not be read."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __getitem__(self, name: str) -> NoReturn:
        raise TraceError(f"{self._reason}; it read {name!r}")

    def __iter__(self) -> NoReturn:
        raise TraceError(self._reason)

    def __len__(self) -> NoReturn:
        raise TraceError(self._reason)


@contextmanager
def hidden_memory(world: World, reason: str) -> Iterator[None]:
    """Make functions that read the memory of a world raise a TraceError with this reason."""
    memory, world.memory = world.memory, _Hidden(reason)
    try:
        yield
    finally:
        world.memory = memory


def memory_of(part: object, memory: Mapping[str, Sequence[Real]], name: str) -> Sequence[Real]:
    """Return the numbers of a part; raise TraceError if the memory of another part has taken their name."""
    numbers = memory[name]
    owner = memory.entries[name].owner if isinstance(memory, MemoryValues) else None
    if owner is not None and owner != part:
        raise TraceError(
            f"memory {name!r} of the task belongs to {owner!r}, but it is read by {part!r}. If the task has both, give "
            "them different names (name=...); otherwise use one of them everywhere, for memory and terms"
        )
    return numbers


Value = Real | Vec3 | Sequence[Real]

StartFn = Callable[[World, Mapping[str, Sequence[Real]], Draw], Value]
"""Start of a memory entry: a function of the first world of an episode, of all memory at the end of the previous
episode (zero before the first) and of `draw`."""

UpdateFn = Callable[[World, Action, Mapping[str, Sequence[Real]], Draw], Value]
"""Update of a memory entry: a function of the world after a step, of the action, of all memory during the step and of
`draw`."""


@dataclass(frozen=True)
class Memory:
    """Numbers of each world that last from step to step."""

    size: int
    """How many numbers."""
    start: StartFn | float | Sequence[float] | None = None
    """Values at the start of an episode: a function of (world, memory, draw), a number, or `size` numbers; zero by
    default."""
    update: UpdateFn | None = None
    """Values after a step: a function of (world, action, memory, draw). By default the values do not change during an
    episode."""
    owner: object = field(default=None, repr=False, compare=False)
    """The part whose numbers these are, such as a `VelocityCommand`; other parts refuse to read them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_int("Memory.size", self.size, 1))
        if self.update is not None and not callable(self.update):
            raise InputError(f"Memory.update must be a function of (world, action, memory, draw), got {self.update!r}")
        if self.start is None or callable(self.start):
            return
        expected = f"Memory.start must be a function of (world, memory, draw), a number or {self.size} numbers"
        if isinstance(self.start, Sequence) and not isinstance(self.start, str):
            if len(self.start) != self.size:
                raise InputError(f"{expected}, got {len(self.start)} numbers")
            numbers = tuple(check_finite(f"Memory.start[{i}]", x) for i, x in enumerate(self.start))
        elif isinstance(self.start, float | int):
            numbers = (check_finite("Memory.start", self.start),) * self.size
        else:
            raise InputError(f"{expected}, got {self.start!r}")
        object.__setattr__(self, "start", numbers)

    def first(self, name: str, world: World, memory: MemoryValues, draw: Draw) -> list[Real]:
        """Return the values at the start of an episode."""
        if self.start is None:
            return [0.0] * self.size
        value = self.start(world, memory, draw) if callable(self.start) else self.start
        return self._checked(f"the start of memory {name!r}", value)

    def next(self, name: str, world: World, action: Action, memory: MemoryValues, draw: Draw) -> list[Real]:
        """Return the values after a step."""
        if self.update is None:
            return memory[name]
        return self._checked(f"the update of memory {name!r}", self.update(world, action, memory, draw))

    def _checked(self, what: str, value: object) -> list[Real]:
        given = list(value) if isinstance(value, Vec3 | Sequence) else [value]
        numbers: list[Real] = [x for x in given if isinstance(x, Scalar | float | int)]
        if len(numbers) < len(given):
            raise TraceError(
                f"{what} must return numbers, not comparisons or tensors; got "
                f"{', '.join(type(x).__name__ for x in given)}"
            )
        if len(numbers) != self.size:
            raise TraceError(f"{what} must return {self.size} numbers, as Memory({self.size}) says, got {len(numbers)}")
        return numbers
