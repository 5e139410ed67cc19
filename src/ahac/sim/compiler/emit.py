"""From programs to C++: what a step and its adjoint consist of, and the loop over substeps in them.

Every kernel is the body of one function `run(args, block)`, which advances the worlds of one block of lanes. A kernel's
arrays are passed as bare addresses, worlds as rows; an address of zero stands for an array that was not given.
"""

from __future__ import annotations

from collections.abc import Sequence

from ahac.native.source import Source
from ahac.sim.compiler.program import Program, StepPrograms
from ahac.sim.compiler.writer import Writer

__all__ = ["context_groups", "map_source", "step_adjoint_source", "step_source"]


def _sizes(program: Program) -> tuple[dict[str, int], dict[str, int]]:
    inputs = {name: len(group) for name, group in program.inputs.items()}
    return inputs, {name: len(group) for name, group in program.outputs.items()}


def map_source(name: str, program: Program, linear: Sequence[str] = ()) -> Source:
    """A kernel that evaluates one program for every world: arrays for its inputs, then for its outputs.

    Where the inputs in `linear` are all zero, so are the outputs.
    """
    writer = Writer()
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


def step_source(programs: StepPrograms, parts: int = 1) -> Source:
    """Forward: enter, substeps (each keeping its state, if `saved_states` is given), readouts."""
    writer = Writer(parts=parts)
    sizes, _ = _sizes(programs.substep)
    for group in ("q", "v", "u", "f"):
        writer.load(group, sizes[group])
    writer.pointer("saved_states")
    writer.lines.append("const int steps = args.count; T h[1]; h[0] = lane::k(args.scalar);")
    writer.run(programs.normalize_state, IDENTITY, IDENTITY)
    state = {g: sizes[g] for g in ("q", "v")}
    for group, size in state.items():
        writer.declare(f"{group}0", size)
        writer.lines += [f"{group}0[{i}] = {group}[{i}];" for i in range(size)]

    def keep(part: int) -> None:
        writer.lines.append("if (saved_states_p) {")
        writer.keep(state, read=False, part=part)
        writer.lines.append("}")

    writer.loop("for (int s = 0; s < steps; ++s)", keep, programs.substep, IDENTITY, IDENTITY)
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


def step_adjoint_source(normalize_state: Program, substep: Program, readout: Program, parts: int = 1) -> Source:
    """Backward: the adjoint programs in reverse order, from adjoints of q, v and readouts to those of q, v, u, f."""
    writer = Writer(parts=parts)
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
    writer.pointer("saved_states")
    writer.lines.append("const int steps = args.count; T h[1]; h[0] = lane::k(args.scalar);\n{ const int s = 0;")
    writer.keep({f"{g}0": size for g, size in state.items()}, read=True)
    writer.lines.append("}")
    context = context_groups(readout)
    for group, size in context.items():
        writer.load(group, size)
    bars = {f"{g}_bar": f"{g}_bar" for g in IDENTITY}
    ends = {"q": "q_end", "v": "v_end", **{g: g for g in (*context, *read)}}
    added = ("q_bar", "v_bar", "u_bar", "q0_bar", "v0_bar")
    # What reaches start and controls by way of readouts is kept separate from what goes through the substeps.
    writer.run(readout, {**IDENTITY, **bars, **ends}, {**bars, "u_bar": "u0_bar"}, add=added)
    writer.note_seen("used", {"q_bar": sizes["q"], "v_bar": sizes["v"]})
    writer.declare("qacc", sizes["v"])

    def recall(part: int) -> None:
        writer.keep(state, read=True)
        # Semi-implicit Euler: what the substep did to the velocity is its acceleration, and need not be solved for.
        writer.lines.extend(
            f"qacc[{i}] = (v_end[{i}] - v[{i}]) / h[0]; v_end[{i}] = v[{i}];" for i in range(sizes["v"])
        )

    header = "for (int s = steps - 1; s >= 0; --s)"
    writer.loop(header, recall, substep, {**IDENTITY, **bars, "qacc": "qacc"}, bars, add=("u_bar", "f_bar"))
    for group in ("q", "v", "u", "f"):
        writer.mask_unseen("used", f"{group}_bar", sizes[group])
    for group in ("q", "v", "u"):
        writer.lines += [f"{group}_bar[{i}] += {group}0_bar[{i}];" for i in range(sizes[group])]
    writer.run(normalize_state, {"q": "q_raw", "q_bar": "q_bar"}, bars)
    for group in ("q", "v", "u", "f"):
        writer.mask_unseen("seen", f"{group}_bar", sizes[group])
        writer.store(f"{group}_bar", sizes[group], f"{group}_bar")
    return writer.source("step adjoint")
