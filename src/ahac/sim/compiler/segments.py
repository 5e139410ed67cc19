"""Divide a long program into segments that are compiled as separate functions.

The time to compile straight-line code grows faster than its length. Values that a later segment needs are passed in
slots of memory, where a compiler would spill most of them anyway.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from ahac.sim.compiler.graph import Scalar
from ahac.sim.compiler.program import Program

__all__ = ["Segment", "Segments", "split"]


@dataclass
class Segment:
    """Consecutive nodes of a program."""

    nodes: list[int] = field(default_factory=list)
    """Nodes that it computes, in order; inputs of the program are read where they are used."""
    loads: dict[int, int] = field(default_factory=dict)
    """Slots of the nodes that it takes from earlier segments."""
    stores: dict[int, int] = field(default_factory=dict)
    """Slots of its nodes that later segments or the outputs need."""


@dataclass
class Segments:
    """A program in segments."""

    segments: list[Segment]
    slots: int
    """Number of slots."""
    outputs: dict[int, int]
    """Slots of the nodes that are outputs, at the end."""


def split(program: Program, size: int) -> Segments:
    """Divide a program into segments of about `size` nodes."""
    graph = program.graph
    live = program.live()
    computed = [index for index in live if program.source(index) is None and graph.nodes[index][0] != "pick"]
    count = max(1, round(len(computed) / size))
    home = {index: k * count // len(computed) for k, index in enumerate(computed)}
    for call, picks in program.picks.items():
        home.update(dict.fromkeys(picks, home[call]))
    segments = [Segment() for _ in range(count)]
    outputs = {o.index for group in program.outputs.values() for o in group if isinstance(o, Scalar)} & home.keys()
    last_use = dict.fromkeys(outputs, count)
    for index in computed:
        for argument in graph.nodes[index][1:]:
            if argument in home and home[argument] < home[index]:
                last_use[argument] = max(last_use.get(argument, 0), home[index])
                segments[home[index]].loads[argument] = -1
    for index in live:
        if index in home:
            segments[home[index]].nodes.append(index)
    slots = _allocate(home, last_use)
    for segment in segments:
        segment.loads = {index: slots[index] for index in sorted(segment.loads)}
        segment.stores = {index: slots[index] for index in segment.nodes if index in slots}
        inputs = {a for index in segment.nodes for a in graph.nodes[index][1:] if a >= 0 and program.source(a)}
        segment.nodes = sorted(inputs) + segment.nodes
    return Segments(segments, max(slots.values(), default=-1) + 1, {index: slots[index] for index in sorted(outputs)})


def _allocate(home: dict[int, int], last_use: dict[int, int]) -> dict[int, int]:
    """Assign a slot to each node that a later segment needs; a slot is free again after the last segment that reads it."""
    slots: dict[int, int] = {}
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    used = 0
    for index in sorted(last_use, key=lambda index: (home[index], index)):
        while busy and busy[0][0] <= home[index] - 1:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            slots[index] = heapq.heappop(free)
        else:
            slots[index] = used
            used += 1
        heapq.heappush(busy, (last_use[index], slots[index]))
    return slots
