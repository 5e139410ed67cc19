"""Statements of a kernel's body: groups of numbers loaded, kept and stored, programs as straight-line code, and loops.

On CUDA several threads may share a world. Then all of them do what is written outside of a loop, each does its part of
the program inside, and what they need of each other goes through slots of shared memory (see `division`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ahac.native.source import Source
from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import OPERATIONS
from ahac.sim.compiler.program import Program
from ahac.sim.compiler.schedule import ThreadSchedule, schedule

__all__ = ["Writer"]

SYNC = "SYNC;"
"""All parts wait for each other."""
ONCE = '_Pragma("unroll 1")'
"""Code that is fetched anew all the time must not be there twice."""


@dataclass
class Writer:
    """Collects the statements of one kernel body."""

    arrays: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    operations: int = 0
    parts: int = 1
    """Threads that share a world."""
    slots: int = 0
    """Numbers per world through which they speak."""

    def pointer(self, array: str) -> None:
        """Take an array as an argument."""
        self.lines.append(f"real* const {array}_p = (real*)args.address[{len(self.arrays)}];")
        self.arrays.append(array)

    def declare(self, name: str, size: int) -> None:
        """A local group of numbers, all zero."""
        if size:
            self.lines.append(f"T {name}[{size}] = {{}};")

    def load(self, name: str, size: int, array: str | None = None) -> None:
        """Declare a group and read it from an argument, or leave it zero where that was not given."""
        self.pointer(array := array or name)
        self.declare(name, size)
        if size:
            self.lines.append(f"if ({array}_p) EACH({size}) {name}[i] = lane::load({array}_p, i, {size}, e, n);")

    def store(self, name: str, size: int, array: str | None = None) -> None:
        """Write a group to an argument, if that was given."""
        self.pointer(array := array or name)
        if size:
            test = f"{array}_p && FIRST_PART"
            self.lines.append(f"if ({test}) EACH({size}) lane::store({array}_p, i, {size}, e, n, {name}[i]);")

    def keep(self, groups: Mapping[str, int], read: bool, part: int = 0) -> None:
        """Write the groups to this substep's place in `saved_states`, each part its share, or read them from there."""
        width, place = sum(groups.values()), 0
        for name, size in groups.items():
            for i in range(size):
                at = f"lane::saved_state(saved_states_p, {place}, s, {width}, steps, e, n)"
                if read:
                    self.lines.append(f"{name}[{i}] = lane::get({at});")
                elif place % self.parts == part:
                    self.lines.append(f"lane::put({at}, {name}[{i}]);")
                place += 1

    def note_seen(self, seen: str, groups: Mapping[str, int]) -> None:
        """Declare the size of adjoints at this point: where it is zero, so is every gradient that rests on them."""
        self.lines.append(f"T {seen} = {{}};")
        self.lines += [f"EACH({size}) {seen} += lane::abs({name}[i]);" for name, size in groups.items() if size]

    def mask_unseen(self, seen: str, name: str, size: int) -> None:
        """Zero in, zero out, also in a world whose numbers are not finite: 0 · NaN would spoil a masked loss."""
        if size:
            self.lines.append(f"EACH({size}) {name}[i] = lane::less({seen}, lane::k(real(1e-37)), T{{}}, {name}[i]);")

    def run(
        self, program: Program, inputs: Mapping[str, str], outputs: Mapping[str, str], add: Sequence[str] = ()
    ) -> None:
        """A program between local groups; outputs in `add` are added to their groups instead of replacing them."""
        live = program.live()
        self.operations += len(live)
        self.lines.append("{")
        self._compute(program, live, inputs)
        for name, i, value in _outputs(program):
            self.lines.append(f"{outputs[name]}[{i}] {'+=' if name in add else '='} {_term(program, value)};")
        self.lines.append("}")

    def loop(
        self,
        header: str,
        begin: Callable[[int], None],
        program: Program,
        inputs: Mapping[str, str],
        outputs: Mapping[str, str],
        add: Sequence[str] = (),
    ) -> None:
        """A program again and again; `begin(part)` writes what comes before it each time."""
        if self.parts == 1:
            self.lines.append(f"{header} {{")
            begin(0)
            self.run(program, inputs, outputs, add)
            self.lines.append("}")
            return
        division = schedule(program, self.parts)
        results = [(name, f"{outputs[name]}[{i}]", division.owner_of(v), v) for name, i, v in _outputs(program)]
        carried = {local: division.memory + k for k, (_, local, _, _) in enumerate(results)}
        live = program.live()
        given = [index for index in live if program.source(index) is not None]
        self.operations += len(live)
        self.slots = max(self.slots, division.memory + len(results))
        self.lines.append("switch (PART) {")
        for part in range(self.parts):
            self.lines.append(f"case {part}: {ONCE} {header} {{")
            begin(part)
            self._stages(program, given, inputs, division, part)
            for name, local, owner, value in results:
                if owner == part:
                    to = f"{local} +=" if name in add else f"SMEM({carried[local]}) ="
                    self.lines.append(f"{to} {_term(program, value)};")
            self.lines.append(SYNC)
            self.lines += [f"{local} = SMEM({carried[local]});" for name, local, _, _ in results if name not in add]
            self.lines.append(f"{SYNC if division.stages == 1 else ''} }}")
            mine = [local for name, local, owner, _ in results if name in add and owner == part]
            self.lines += [*(f"SMEM({carried[local]}) = {local};" for local in mine), "break;"]
        self.lines += ["}", SYNC]
        self.lines += [f"{local} = SMEM({carried[local]});" for name, local, _, _ in results if name in add]

    def source(self, name: str) -> Source:
        """What was written."""
        return Source(name, tuple(self.arrays), "\n".join(self.lines), self.operations, self.parts, self.slots)

    def _stages(
        self, program: Program, given: Sequence[int], inputs: Mapping[str, str], division: ThreadSchedule, part: int
    ) -> None:
        """One part of a program, of which some nodes are given."""
        self._compute(program, given, inputs)
        for stage in range(division.stages):
            if stage:
                self.lines.append(SYNC)
            self.lines += [f"const T t{i} = SMEM({division.slots[i]});" for i in division.imports[part][stage]]
            self._compute(program, division.nodes[part][stage], inputs, division.slots)

    def _compute(
        self, program: Program, nodes: Iterable[int], inputs: Mapping[str, str], slots: Mapping[int, int] | None = None
    ) -> None:
        """Nodes one after the other; those with a slot are put there, too."""
        graph, shared = program.graph, slots or {}
        for index in nodes:
            if (place := program.source(index)) is not None:
                expression = f"{inputs[place[0]]}[{place[1]}]"
            else:
                operation, *arguments = graph.nodes[index]
                terms = (_term(program, graph.argument(a)) for a in arguments)
                expression = OPERATIONS[operation].code.format(*terms)
            self.lines.append(f"const T t{index} = {expression};")
            if index in shared:
                self.lines.append(f"SMEM({shared[index]}) = t{index};")


def _outputs(program: Program) -> list[tuple[str, int, Real]]:
    return [(name, i, value) for name, group in program.outputs.items() for i, value in enumerate(group)]


def _term(program: Program, value: Real) -> str:
    if isinstance(value, Scalar):
        return f"t{value.index}"
    # C++ has no literal for infinity; a product that overflows is one.
    digits = repr(float(value)) if math.isfinite(value) else f"{math.copysign(1.0, value)} * 1e300 * 1e300"
    return f"lane::k(real({digits}))"
