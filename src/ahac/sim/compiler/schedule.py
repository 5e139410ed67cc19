"""A program divided among threads that work on the same world: who computes what, and when numbers change hands.

Time is cut into stages. Within a stage every part computes alone; between two of them all wait for each other, and
what other parts need lies in slots of memory that all can read.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.partition import partition
from ahac.sim.compiler.program import Program

__all__ = ["ThreadSchedule", "schedule"]

INSTRUCTIONS = {
    "sin": 20.0, "cos": 20.0, "sqrt": 10.0, "rcp": 10.0, "exp": 15.0, "log": 30.0, "tanh": 40.0, "atan2": 50.0,
    "mark": 0.0, "stop": 0.0, "implicit": 0.0,
}  # fmt: skip
"""Instructions that an operation takes on CUDA, about; of all others, one."""


@dataclass(frozen=True)
class ThreadSchedule:
    """Of one program."""

    nodes: list[list[list[int]]]
    """[part][stage] nodes in the order in which they are computed."""
    imports: list[list[list[int]]]
    """[part][stage] nodes of other parts that are read when the stage begins."""
    slots: dict[int, int]
    """Where a node that other parts need is put when it has been computed."""
    owner: dict[int, int]
    """The part that computes a node."""

    def owner_of(self, value: Real) -> int:
        """The part that has an output; of a constant or an input, the first."""
        return self.owner.get(value.index, 0) if isinstance(value, Scalar) else 0

    @property
    def stages(self) -> int:
        """How often all wait for each other, once at the end included."""
        return len(self.nodes[0])

    @property
    def memory(self) -> int:
        """Slots in use."""
        return max(self.slots.values(), default=-1) + 1


def schedule(program: Program, parts: int) -> ThreadSchedule:
    """Divide a program; inputs are at hand everywhere."""
    nodes = program.graph.nodes
    computed = [index for index in program.live() if program.source(index) is None]
    place = {index: i for i, index in enumerate(computed)}
    arguments = [[place[a] for a in dict.fromkeys(nodes[index][1:]) if a in place] for index in computed]
    cost = [INSTRUCTIONS.get(nodes[index][0], 1.0) for index in computed]
    owner = partition(arguments, cost, parts)
    stage = _Stages(arguments, cost, owner, parts).run()
    count = max(stage, default=0) + 1
    own: list[list[list[int]]] = [[[] for _ in range(count)] for _ in range(parts)]
    taken: list[list[list[int]]] = [[[] for _ in range(count)] for _ in range(parts)]
    seen: list[set[int]] = [set() for _ in range(parts)]
    for part, when, i in sorted((owner[i], stage[i], i) for i in range(len(computed))):
        own[part][when].append(computed[i])
        for a in arguments[i]:
            if owner[a] != part and a not in seen[part]:
                seen[part].add(a)
                taken[part][when].append(computed[a])
    born = {index: stage[place[index]] for index in computed}
    return ThreadSchedule(own, taken, _slots(taken, born), {index: owner[place[index]] for index in computed})


class _Stages:
    """In which stage each node is computed, given its part: as few stages as can be, then of equal work."""

    def __init__(
        self, arguments: Sequence[Sequence[int]], cost: Sequence[float], owner: Sequence[int], parts: int
    ) -> None:
        self.arguments = arguments
        self.cost = cost
        self.owner = owner
        self.parts = parts
        self.users: list[list[int]] = [[] for _ in arguments]
        for node, used in enumerate(arguments):
            for argument in used:
                self.users[argument].append(node)
        self.changes = [0] * len(cost)
        """Most changes of hand on the way from a node to the end: so many stages come after it."""
        self.length = list(cost)
        """Longest way to the end."""
        for node in reversed(range(len(cost))):
            for user in self.users[node]:
                self.changes[node] = max(self.changes[node], self.changes[user] + (owner[user] != owner[node]))
            self.length[node] += max((self.length[user] for user in self.users[node]), default=0.0)
        self.missing = [len(used) for used in arguments]
        self.stage = [-1] * len(cost)
        self.ready: list[list[tuple[int, float, int]]] = [[] for _ in range(parts)]

    def run(self) -> list[int]:
        for node, count in enumerate(self.missing):
            if count == 0:
                self._offer(node)
        last = max(self.changes, default=0)
        for now in range(last + 1):
            load, later = [0.0] * self.parts, []
            for part in range(self.parts):  # what others will wait for
                self._work(part, now, last - now, 0.0, load, later)
            most = max(load) if now < last else float("inf")
            for part in range(self.parts):  # what there is time for
                self._work(part, now, last - now, most, load, later)
            for node in later:
                self._offer(node)
        return self.stage

    def _offer(self, node: int) -> None:
        heapq.heappush(self.ready[self.owner[node]], (-self.changes[node], -self.length[node], node))

    def _work(self, part: int, now: int, due: int, time: float, load: list[float], later: list[int]) -> None:
        """Compute what is due in this stage, and more while there is time."""
        ready = self.ready[part]
        while ready and (-ready[0][0] >= due or load[part] < time):
            node = heapq.heappop(ready)[2]
            self.stage[node] = now
            load[part] += self.cost[node]
            for user in self.users[node]:
                self.missing[user] -= 1
                if self.missing[user] == 0:
                    if all(self.owner[a] == self.owner[user] or self.stage[a] < now for a in self.arguments[user]):
                        self._offer(user)
                    else:
                        later.append(user)


def _slots(taken: list[list[list[int]]], defined_in: Mapping[int, int]) -> dict[int, int]:
    """Places for what changes hands, used again in the stage after the last part has read them."""
    last: dict[int, int] = {}
    for stages in taken:
        for when, nodes in enumerate(stages):
            for node in nodes:
                last[node] = max(last.get(node, 0), when)
    slots: dict[int, int] = {}
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for node in sorted(last, key=lambda node: (defined_in[node], node)):
        while busy and busy[0][0] < defined_in[node]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        slots[node] = heapq.heappop(free) if free else len(slots) and max(slots.values()) + 1
        heapq.heappush(busy, (last[node], slots[node]))
    return slots
