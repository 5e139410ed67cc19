"""Generate the C++ of kernels: single programs, a control step, and the adjoint of a control step.

Every kernel is the body of one function `run(args, block)`, which advances the worlds of one block of lanes. A kernel's
arrays are passed as bare addresses with one row per world; an address of zero stands for an array that was not passed.

Names of groups in generated code:

    q, v, u, f      positions, velocities, controls and generalized forces; h is the length of a substep
    act             activations; kernels of models without activations do not have this group
    p, m            parameters and memory, if there are any; they are constant during a control step
    q0, v0, act0    state before the first substep, after quaternions were normalized
    q_end, v_end    state after the current substep (backward pass only)
    x_bar           adjoint of group x: the derivative of the loss with respect to x
    q0_bar, v0_bar, act0_bar, u0_bar, p0_bar, m0_bar
                    part of an adjoint that reaches the initial state and the inputs through the readouts alone
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ahac.native.source import Source
from ahac.sim.compiler.program import Program, StepPrograms
from ahac.sim.compiler.writer import Writer

__all__ = ["context_groups", "map_source", "step_adjoint_source", "step_source"]


def _sizes(program: Program) -> tuple[dict[str, int], dict[str, int]]:
    inputs = {name: len(group) for name, group in program.inputs.items()}
    return inputs, {name: len(group) for name, group in program.outputs.items()}


def map_source(name: str, program: Program, linear: Sequence[str] = ()) -> Source:
    """Generate a kernel that evaluates one program for every world: arrays for its inputs, then for its outputs.

    Args:
        name: Name of the kernel.
        program: Program to evaluate.
        linear: Inputs in which the outputs are linear: in a world where all of them are zero, so are the outputs.
    """
    writer = Writer()
    inputs, outputs = _sizes(program)
    for group, size in inputs.items():
        writer.load(f"in_{group}", size, group)
    for group, size in outputs.items():
        writer.declare(f"out_{group}", size)
    writer.run(program, {g: f"in_{g}" for g in inputs}, {g: f"out_{g}" for g in outputs})
    if linear:
        writer.sum_magnitudes("seen", {f"in_{group}": inputs[group] for group in linear})
    for group, size in outputs.items():
        if linear:
            writer.zero_unless("seen", f"out_{group}", size)
        writer.store(f"out_{group}", size, f"to_{group}")
    return writer.source(name)


STATE = ("q", "v", "act")
EXTRA_INPUTS = ("p", "m")
"""Optional inputs: parameters and memory."""
FIXED_INPUTS = ("u", "f", "h", *EXTRA_INPUTS)
"""Inputs of a substep that are the same in all substeps of a control step."""
IDENTITY = {g: g for g in (*STATE, *FIXED_INPUTS, "q0", "v0", "act0")}


def _state(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the groups of the state and their sizes."""
    return {group: sizes[group] for group in STATE if group in sizes}


def _inputs(sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Return the inputs of a substep besides the state: controls, generalized forces, parameters and memory."""
    return ("u", "f", *(group for group in EXTRA_INPUTS if group in sizes))


def context_groups(readout: Program) -> dict[str, int]:
    """Sizes of the inputs that only readouts have, which the caller passes with each step."""
    return {name: len(group) for name, group in readout.inputs.items() if name.startswith("context_")}


def step_source(programs: StepPrograms, threads: int = 1) -> Source:
    """Generate the forward kernel of a control step, with `threads` CUDA threads per world.

    q = normalize_state(q)
    q0, v0 = q, v
    for s in 0 .. steps - 1:
        saved_states[s] = q, v                              # if the array was passed
        q, v = substep(q, v, u, f, h, p, m)
    readouts = readout(q, v, u, q0, v0, p, m, context)
    store q, v, readouts
    """
    writer = Writer(threads=threads)
    sizes, _ = _sizes(programs.substep)
    state = _state(sizes)
    for group in (*state, *_inputs(sizes)):
        writer.load(group, sizes[group])
    writer.pointer("saved_states")
    writer.load_timestep()
    writer.run(programs.normalize_state, IDENTITY, IDENTITY)
    for group, size in state.items():
        writer.declare(f"{group}0", size)
        writer.each(size, f"{group}0[{{i}}] = {group}[{{i}}];")
    writer.substeps(
        lambda thread: writer.save_state(state, thread), programs.substep, IDENTITY, IDENTITY, fixed=FIXED_INPUTS
    )
    _, readouts = _sizes(programs.readout)
    context = context_groups(programs.readout)
    for group, size in context.items():
        writer.load(group, size)
    for group, size in readouts.items():
        writer.declare(group, size)
    writer.run(programs.readout, {**IDENTITY, **{g: g for g in context}}, {g: g for g in readouts})
    for group, size in {**state, **readouts}.items():
        writer.store(group, size, f"next_{group}")
    return writer.source("step")


def step_adjoint_source(normalize_state: Program, substep: Program, readout: Program, threads: int = 1) -> Source:
    """Generate the backward kernel of a control step, with `threads` CUDA threads per world.

        load q_bar, v_bar, readout_bars, q_end, v_end           # adjoints of the step's results, and its last state
        q0, v0 = saved_states[0]
        q_bar, v_bar, u0_bar, q0_bar, v0_bar += readout_adjoint(q_end, v_end, u, q0, v0, context, readout_bars)
                                                                # and p0_bar, m0_bar, likewise below
        for s in steps - 1 .. 0:
            q, v = saved_states[s]
            qacc = (v_end - v) / h;  v_end = v
            q_bar, v_bar = substep_adjoint(q, v, u, f, h, qacc, q_bar, v_bar);  u_bar, f_bar += ...
        q_bar, v_bar, u_bar += q0_bar, v0_bar, u0_bar
        q_bar = normalize_state_adjoint(q, q_bar)
        store q_bar, v_bar, u_bar, f_bar

    In a world whose incoming adjoints are all zero, the results are set to zero, even if its state is not finite.

    Args:
        normalize_state: Adjoint of the program that normalizes quaternions.
        substep: Adjoint of a substep, which takes the acceleration `qacc` as an input.
        readout: Adjoint of the readouts.
        threads: CUDA threads that share a world.
    """
    writer = Writer(threads=threads)
    sizes, _ = _sizes(substep)
    state = _state(sizes)
    readout_bars = {name: len(group) for name, group in readout.inputs.items() if name.endswith("_bar")}
    context = context_groups(readout)
    # Parameters and memory have an adjoint only if the program computes one.
    inputs = [group for group in _inputs(sizes) if f"{group}_bar" in substep.outputs]
    extra = [group for group in inputs if group in EXTRA_INPUTS]
    _load_for_adjoint(writer, sizes, readout_bars, context, inputs)
    bars = {f"{g}_bar": f"{g}_bar" for g in IDENTITY}
    at_end = {**{g: f"{g}_end" for g in state}, **{g: g for g in (*context, *readout_bars)}}
    # The readouts' contribution to the initial state and the controls bypasses the substeps, so it is kept separate.
    apart = {f"{group}_bar": f"{group}0_bar" for group in ("u", *extra)}
    added = (*apart, *(f"{g}{part}_bar" for g in state for part in ("", "0")))
    writer.run(readout, {**IDENTITY, **bars, **at_end}, {**bars, **apart}, add=added)
    writer.sum_magnitudes("used", {f"{g}_bar": size for g, size in state.items()})
    writer.declare("qacc", sizes["v"])

    def restore(thread: int) -> None:
        writer.restore_state(state)
        # Semi-implicit Euler: the change of velocity gives the acceleration, which need not be solved for again.
        writer.each(sizes["v"], "qacc[{i}] = (v_end[{i}] - v[{i}]) / h[0]; v_end[{i}] = v[{i}];")

    read = {**IDENTITY, **bars, "qacc": "qacc"}
    sums = [f"{group}_bar" for group in inputs]
    writer.substeps(restore, substep, read, bars, add=sums, backward=True, fixed=FIXED_INPUTS)
    for group in (*state, *inputs):
        writer.zero_unless("used", f"{group}_bar", sizes[group])
    for group in (*state, "u", *extra):
        writer.each(sizes[group], f"{group}_bar[{{i}}] += {group}0_bar[{{i}}];")
    writer.run(normalize_state, {"q": "q_raw", "q_bar": "q_bar"}, bars)
    for group in (*state, *inputs):
        writer.zero_unless("seen", f"{group}_bar", sizes[group])
        writer.store(f"{group}_bar", sizes[group], f"{group}_bar")
    return writer.source("step adjoint")


def _load_for_adjoint(
    writer: Writer,
    sizes: Mapping[str, int],
    readout_bars: Mapping[str, int],
    context: Mapping[str, int],
    differentiated: Sequence[str],
) -> None:
    """Declare the groups of the backward kernel and load its inputs; `seen` sums up the incoming adjoints."""
    for group in _inputs(sizes):
        writer.load(group, sizes[group])
        if group in differentiated:
            writer.declare(f"{group}_bar", sizes[group])
    for group in ("u", *EXTRA_INPUTS):
        if group in differentiated:
            writer.declare(f"{group}0_bar", sizes[group])
    for group in _state(sizes):
        writer.load(f"{group}_bar", sizes[group], f"next_{group}_bar")
        writer.load(f"{group}_end", sizes[group], f"next_{group}")
        writer.declare(group, sizes[group])
        writer.declare(f"{group}0_bar", sizes[group])
        writer.declare(f"{group}0", sizes[group])
    for group, size in readout_bars.items():
        writer.load(group, size, f"next_{group}")
    writer.sum_magnitudes("seen", {**{f"{g}_bar": size for g, size in _state(sizes).items()}, **readout_bars})
    writer.load("q_raw", sizes["q"], "q")
    writer.pointer("saved_states")
    writer.load_timestep()
    writer.restore_first_state({f"{g}0": size for g, size in _state(sizes).items()})
    for group, size in context.items():
        writer.load(group, size)
