"""Schedule a program for several threads that share a world: which thread computes which node, and when.

Time is divided into stages. Within a stage every thread computes on its own; between two stages all threads wait
for each other. Values that other threads need are passed through slots of shared memory.
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
"""Approximate number of CUDA instructions per operation; operations that are not listed take one."""

LOOP_INSTRUCTIONS = {**INSTRUCTIONS, "sqrt": 2.0, "rcp": 2.0}
"""The same in a loop over rows, where square roots and reciprocals are approximate."""
REPETITION = 0.5
"""Cost of an instruction in a loop for each row, relative to fetching it once."""

LONG = 64.0
"""Cost above which a node is not started in a stage that it would prolong, unless it cannot wait."""


@dataclass(frozen=True)
class ThreadSchedule:
    """Assignment of a program's nodes to threads and stages."""

    nodes: list[list[list[int]]]
    """[thread][stage] nodes in the order in which they are computed."""
    imports: list[list[list[int]]]
    """[thread][stage] nodes of other threads that are read at the start of the stage."""
    slots: dict[int, int]
    """Shared-memory slot of each node that other threads need."""
    owner: dict[int, int]
    """Thread that computes each node."""

    def owner_of(self, value: Real) -> int:
        """Return the thread that holds an output; for a constant or an input, the first one."""
        return self.owner.get(value.index, 0) if isinstance(value, Scalar) else 0

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.nodes[0])

    @property
    def memory(self) -> int:
        """Number of slots in use."""
        return max(self.slots.values(), default=-1) + 1


def schedule(program: Program, threads: int) -> ThreadSchedule:
    """Distribute a program among threads, each of which can read all inputs."""
    nodes = program.graph.nodes
    computed = [index for index in program.live() if program.source(index) is None]
    number = {index: i for i, index in enumerate(computed)}
    arguments = [[number[a] for a in dict.fromkeys(nodes[index][1:]) if a in number] for index in computed]
    cost = [_instructions(program, index) for index in computed]
    owner = _partition(program, computed, cost, threads)
    stage = _StageAssignment(arguments, cost, owner, threads).run()
    count = max(stage, default=0) + 1
    own: list[list[list[int]]] = [[[] for _ in range(count)] for _ in range(threads)]
    imports: list[list[list[int]]] = [[[] for _ in range(count)] for _ in range(threads)]
    imported: list[set[int]] = [set() for _ in range(threads)]
    for thread, when, i in sorted((owner[i], stage[i], i) for i in range(len(computed))):
        own[thread][when].append(computed[i])
        for a in arguments[i]:
            if owner[a] != thread and a not in imported[thread]:
                imported[thread].add(a)
                imports[thread][when].append(computed[a])
    defined_in = {index: stage[number[index]] for index in computed}
    slots = _allocate_slots(imports, defined_in)
    return ThreadSchedule(own, imports, slots, {index: owner[number[index]] for index in computed})


def _instructions(program: Program, index: int) -> float:
    """Return the approximate number of CUDA instructions of a node."""
    if index in program.graph.calls:
        call = program.graph.calls[index]
        repeated = sum(count * LOOP_INSTRUCTIONS.get(kind, 1.0) for kind, count in call.operations.items())
        return repeated / call.repetitions + REPETITION * repeated
    return INSTRUCTIONS.get(program.graph.nodes[index][0], 1.0)


def _partition(program: Program, computed: Sequence[int], cost: Sequence[float], threads: int) -> list[int]:
    """Assign a thread to each node; the results of a call belong to the thread that makes the call."""
    nodes = program.graph.nodes
    unit = {index: nodes[index][1] if nodes[index][0] == "pick" else index for index in computed}
    number = {index: i for i, index in enumerate(index for index in computed if unit[index] == index)}
    arguments = [[number[a] for a in dict.fromkeys(unit[a] for a in nodes[index][1:] if a in unit)] for index in number]
    owner = partition(arguments, [c for c, index in zip(cost, computed, strict=True) if index in number], threads)
    return [owner[number[unit[index]]] for index in computed]


class _StageAssignment:
    """Assigns a stage to each node, given its thread: as few stages as possible, with balanced work in each.

    A list scheduler: a node is ready when its arguments are available to its thread, and ready nodes are taken in the
    order of how many stages must follow them, then of the longest path to the end.
    """

    def __init__(
        self, arguments: Sequence[Sequence[int]], cost: Sequence[float], owner: Sequence[int], threads: int
    ) -> None:
        self.arguments = arguments
        self.cost = cost
        self.owner = owner
        self.threads = threads
        self.users: list[list[int]] = [[] for _ in arguments]
        for node, used in enumerate(arguments):
            for argument in used:
                self.users[argument].append(node)
        self.transfers = [0] * len(cost)
        """Largest number of transfers between threads on a path from a node to the end: the stages that must follow."""
        self.path_cost = list(cost)
        """Cost of the most expensive path from a node to the end."""
        for node in reversed(range(len(cost))):
            for user in self.users[node]:
                self.transfers[node] = max(self.transfers[node], self.transfers[user] + (owner[user] != owner[node]))
            self.path_cost[node] += max((self.path_cost[user] for user in self.users[node]), default=0.0)
        self.missing = [len(used) for used in arguments]
        """Number of arguments that have not been computed yet."""
        self.stage = [-1] * len(cost)
        self.ready: list[list[tuple[int, float, int]]] = [[] for _ in range(threads)]
        """Priority queue of each thread."""

    def run(self) -> list[int]:
        """Return the stage of each node."""
        for node, count in enumerate(self.missing):
            if count == 0:
                self._enqueue(node)
        last = max(self.transfers, default=0)
        for now in range(last + 1):
            load, ready_next = [0.0] * self.threads, []
            for thread in range(self.threads):  # nodes that cannot wait
                self._fill(thread, now, last - now, 0.0, load, ready_next)
            longest = max(load) if now < last else float("inf")
            for thread in range(self.threads):  # more nodes, up to the load of the busiest thread
                self._fill(thread, now, last - now, longest, load, ready_next)
            for node in ready_next:
                self._enqueue(node)
        return self.stage

    def _enqueue(self, node: int) -> None:
        heapq.heappush(self.ready[self.owner[node]], (-self.transfers[node], -self.path_cost[node], node))

    def _fill(self, thread: int, now: int, due: int, target: float, load: list[float], ready_next: list[int]) -> None:
        """Put nodes of a thread into stage `now`: all that at least `due` stages follow, and more up to `target` load.

        Nodes that become ready through values of other threads computed in this stage are added to `ready_next`.
        """
        ready = self.ready[thread]
        postponed: list[tuple[int, float, int]] = []
        while ready and (-ready[0][0] >= due or load[thread] < target):
            entry = heapq.heappop(ready)
            node = entry[2]
            if -entry[0] < due and self.cost[node] > max(LONG, target - load[thread]):
                postponed.append(entry)  # a loop that would keep the other threads waiting
                continue
            self.stage[node] = now
            load[thread] += self.cost[node]
            for user in self.users[node]:
                self.missing[user] -= 1
                if self.missing[user] == 0:
                    if all(self.owner[a] == self.owner[user] or self.stage[a] < now for a in self.arguments[user]):
                        self._enqueue(user)
                    else:
                        ready_next.append(user)
        for entry in postponed:
            heapq.heappush(ready, entry)


def _allocate_slots(imports: list[list[list[int]]], defined_in: Mapping[int, int]) -> dict[int, int]:
    """Assign a slot to each imported node; a slot is reused from the stage after its last read."""
    last_read: dict[int, int] = {}
    for stages in imports:
        for when, nodes in enumerate(stages):
            for node in nodes:
                last_read[node] = max(last_read.get(node, 0), when)
    slots: dict[int, int] = {}
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for node in sorted(last_read, key=lambda node: (defined_in[node], node)):
        while busy and busy[0][0] < defined_in[node]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        slots[node] = heapq.heappop(free) if free else len(slots) and max(slots.values()) + 1
        heapq.heappush(busy, (last_read[node], slots[node]))
    return slots
