"""From programs to C++: straight-line code on lanes for the graph, and the loop over substeps around it.

Every kernel is the body of one function `run(task, block)`, which advances the worlds of one block of lanes. A kernel's
arrays are passed as bare addresses, worlds as rows; an address of zero stands for an array that was not given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ahac.native.source import Source
from ahac.sim.compiler.graph import Scalar
from ahac.sim.compiler.operations import OPERATIONS
from ahac.sim.compiler.program import Program, StepPrograms

__all__ = ["context_groups", "map_source", "step_adjoint_source", "step_source"]


@dataclass
class _Writer:
    """Collects the statements of one kernel body."""

    arrays: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    operations: int = 0

    def pointer(self, array: str) -> None:
        """Take an array as an argument."""
        self.lines.append(f"real* const {array}_p = (real*)task.address[{len(self.arrays)}];")
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
            self.lines.append(f"if ({array}_p) EACH({size}) lane::store({array}_p, i, {size}, e, n, {name}[i]);")

    def keep(self, groups: Mapping[str, int], read: bool) -> None:
        """Write the groups to this substep's place in `kept`, or read them from there."""
        width, place = sum(groups.values()), 0
        for name, size in groups.items():
            for i in range(size):
                at = f"lane::kept(kept_p, {place}, s, {width}, task.steps, e, n)"
                self.lines.append(f"{name}[{i}] = lane::get({at});" if read else f"lane::put({at}, {name}[{i}]);")
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
        graph = program.graph
        live = program.live()
        self.operations += len(live)

        def term(index: int) -> str:
            return f"t{index}" if index >= 0 else _constant(graph.constants[~index])

        self.lines.append("{")
        for index in live:
            if (place := program.source(index)) is not None:
                expression = f"{inputs[place[0]]}[{place[1]}]"
            else:
                operation, *arguments = graph.nodes[index]
                expression = OPERATIONS[operation].code.format(*(term(a) for a in arguments))
            self.lines.append(f"const T t{index} = {expression};")
        for name, group in program.outputs.items():
            for i, value in enumerate(group):
                result = term(value.index) if isinstance(value, Scalar) else _constant(value)
                self.lines.append(f"{outputs[name]}[{i}] {'+=' if name in add else '='} {result};")
        self.lines.append("}")

    def source(self, name: str) -> Source:
        return Source(name, tuple(self.arrays), "\n".join(self.lines), self.operations)


def _constant(value: float) -> str:
    # C++ has no literal for infinity; a product that overflows is one.
    digits = repr(float(value)) if math.isfinite(value) else f"{math.copysign(1.0, value)} * 1e300 * 1e300"
    return f"lane::k(real({digits}))"


def _sizes(program: Program) -> tuple[dict[str, int], dict[str, int]]:
    inputs = {name: len(group) for name, group in program.inputs.items()}
    return inputs, {name: len(group) for name, group in program.outputs.items()}


def map_source(name: str, program: Program, linear: Sequence[str] = ()) -> Source:
    """A kernel that evaluates one program for every world: arrays for its inputs, then for its outputs.

    Where the inputs in `linear` are all zero, so are the outputs.
    """
    writer = _Writer()
    inputs, outputs = _sizes(program)
    for group, size in inputs.items():
        writer.load(f"in_{group}", size, group)
    for group, size in outputs.items():
        writer.declare(f"out_{group}", size)
    writer.run(program, {g: f"in_{g}" for g in inputs}, {g: f"out_{g}" for g in outputs})
    if linear:
        writer.note_seen("seen", {f"in_{group}": inputs[group] for group in linear})
    for group, size in outputs.items():
        if linear:
            writer.mask_unseen("seen", f"out_{group}", size)
        writer.store(f"out_{group}", size, f"to_{group}")
    return writer.source(name)


IDENTITY = {g: g for g in ("q", "v", "u", "f", "h", "q0", "v0")}


def context_groups(readout: Program) -> dict[str, int]:
    """Inputs that only the readouts of a step have, given by the caller anew with each step."""
    return {name: len(group) for name, group in readout.inputs.items() if name.startswith("context_")}


def step_source(programs: StepPrograms) -> Source:
    """Forward: enter, substeps (each keeping its state, if `kept` is given), readouts."""
    writer = _Writer()
    sizes, _ = _sizes(programs.substep)
    for group in ("q", "v", "u", "f"):
        writer.load(group, sizes[group])
    writer.pointer("kept")
    writer.lines.append("T h[1]; h[0] = lane::k(task.h);")
    writer.run(programs.enter, IDENTITY, IDENTITY)
    state = {g: sizes[g] for g in ("q", "v")}
    for group, size in state.items():
        writer.declare(f"{group}0", size)
        writer.lines += [f"{group}0[{i}] = {group}[{i}];" for i in range(size)]
    writer.lines.append("for (int s = 0; s < task.steps; ++s) {\nif (kept_p) {")
    writer.keep(state, read=False)
    writer.lines.append("}")
    writer.run(programs.substep, IDENTITY, IDENTITY)
    writer.lines.append("}")
    _, read = _sizes(programs.readout)
    context = context_groups(programs.readout)
    for group, size in context.items():
        writer.load(group, size)
    for group, size in read.items():
        writer.declare(group, size)
    writer.run(programs.readout, {**IDENTITY, **{g: g for g in context}}, {g: g for g in read})
    for group, size in {**state, **read}.items():
        writer.store(group, size, f"next_{group}")
    return writer.source("step")


def step_adjoint_source(enter: Program, substep: Program, readout: Program) -> Source:
    """Backward: the adjoint programs in reverse order, from adjoints of q, v and readouts to those of q, v, u, f."""
    writer = _Writer()
    sizes, _ = _sizes(substep)
    for group in ("u", "f"):
        writer.load(group, sizes[group])
        writer.declare(f"{group}_bar", sizes[group])
    writer.declare("u0_bar", sizes["u"])
    state = {g: sizes[g] for g in ("q", "v")}
    for group, size in state.items():
        writer.load(f"{group}_bar", size, f"next_{group}_bar")
        writer.load(f"{group}_end", size, f"next_{group}")
        writer.declare(group, size)
        writer.declare(f"{group}0_bar", size)
        writer.declare(f"{group}0", size)
    read = {name: len(group) for name, group in readout.inputs.items() if name.endswith("_bar")}
    for group, size in read.items():
        writer.load(group, size, f"next_{group}")
    writer.note_seen("seen", {"q_bar": sizes["q"], "v_bar": sizes["v"], **read})
    writer.load("q_raw", sizes["q"], "q")
    writer.pointer("kept")
    writer.lines.append("T h[1]; h[0] = lane::k(task.h);\n{ const int s = 0;")
    writer.keep({f"{g}0": size for g, size in state.items()}, read=True)
    writer.lines.append("}")
    context = context_groups(readout)
    for group, size in context.items():
        writer.load(group, size)
    bars = {f"{g}_bar": f"{g}_bar" for g in IDENTITY}
    ends = {"q": "q_end", "v": "v_end", **{g: g for g in (*context, *read)}}
    added = ("q_bar", "v_bar", "u_bar", "q0_bar", "v0_bar")
    # What reaches start and controls by way of readouts is kept apart from what goes through the substeps.
    writer.run(readout, {**IDENTITY, **bars, **ends}, {**bars, "u_bar": "u0_bar"}, add=added)
    writer.note_seen("used", {"q_bar": sizes["q"], "v_bar": sizes["v"]})
    writer.declare("rate", sizes["v"])
    writer.lines.append("for (int s = task.steps - 1; s >= 0; --s) {")
    writer.keep(state, read=True)
    # Semi-implicit Euler: what the substep did to the velocity is its acceleration, and need not be solved for again.
    writer.lines += [f"rate[{i}] = (v_end[{i}] - v[{i}]) / h[0]; v_end[{i}] = v[{i}];" for i in range(sizes["v"])]
    writer.run(substep, {**IDENTITY, **bars, "rate": "rate"}, bars, add=("u_bar", "f_bar"))
    writer.lines.append("}")
    for group in ("q", "v", "u", "f"):
        writer.mask_unseen("used", f"{group}_bar", sizes[group])
    for group in ("q", "v", "u"):
        writer.lines += [f"{group}_bar[{i}] += {group}0_bar[{i}];" for i in range(sizes[group])]
    writer.run(enter, {"q": "q_raw", "q_bar": "q_bar"}, bars)
    for group in ("q", "v", "u", "f"):
        writer.mask_unseen("seen", f"{group}_bar", sizes[group])
        writer.store(f"{group}_bar", sizes[group], f"{group}_bar")
    return writer.source("step adjoint")
