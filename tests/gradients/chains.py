"""Control steps in numpy and float64: their value, their transposed derivative, and where their kinks are.

No kernel is compiled here, so that what is checked is the traced physics and its derivative, not the code made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ahac.sim import Model
from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.loops import RowCall
from ahac.sim.compiler.program import Program, adjoint, evaluate
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs, Readout
from support.numeric_physics import as_function, stack

Groups = dict[str, np.ndarray]
"""Numbers by the name of their group: [size] of one world, or [batch, size]."""

INPUTS = ("q", "v", "u", "f")
OUTPUTS = ("q", "v", "read_0")
ACTIVATION = 0.3
"""Of muscles at the start."""
TINY = 1e-30
"""Keeps a ratio of two zeros at zero."""


@dataclass(frozen=True)
class Run:
    """What a chain of substeps came to."""

    end: Groups
    """q, v and the one readout, empty where there is none."""
    states: list[Groups]
    """q, v, u, f, h at the start of every substep."""
    branches: np.ndarray
    """[..., number of selects] which side of every minimum, maximum, comparison and absolute value was taken."""


class Chain:
    """Any number of substeps, then readouts: what a call of `Simulator.step` does."""

    def __init__(
        self, model: Model, laws: ForceLaws | None = None, readouts: Mapping[str, Readout] | None = None
    ) -> None:
        programs = Programs(model, laws or ForceLaws(), dict(readouts or {}))
        self.model = programs.model
        parts = programs.step()
        self.normalize_state = parts.normalize_state
        self.substep = parts.substep
        self.readout = parts.readout
        self.substep_back = adjoint(self.substep, INPUTS)
        self.act = {"act": np.full(self.model.na, ACTIVATION)} if self.model.na else {}
        """Activations at the start, where there are any; they are not perturbed."""

    def start(self, x: Groups, h: float) -> Groups:
        """What the first substep meets: quaternions of unit length, and `h`."""
        return {**x, **self.act, "q": evaluate(self.normalize_state, {"q": x["q"]})["q"], "h": np.array([h])}

    def run(self, x: Groups, h: float, steps: int) -> Run:
        """From q, v, u, f, over `steps` substeps of `h` seconds."""
        state = self.start(x, h)
        states, branches = [], []
        for _ in range(steps):
            states.append(state)
            out = self._forth(state)
            branches.append(out["branches"] < 0.0)
            state = {**state, **{name: out[name] for name in ("q", "v", *self.act)}}
        out = evaluate(self._read, between(states[0], state))
        branches.append(out["branches"] < 0.0)
        read = out.get("read_0", stack(x, []))
        end = {"q": state["q"], "v": state["v"], "read_0": read}
        return Run(end, states, np.concatenate(branches, axis=-1))

    def pull(self, x: Groups, run: Run, bars: Groups) -> Groups:
        """From the adjoints of q, v, read_0 at the end of a run from `x` to those of q, v, u, f at its start."""
        end = {**run.end, **self.act}  # no readout looks at activations
        bar = evaluate(self._read_back, {**between(run.states[0], end), "read_0_bar": bars["read_0"]})
        q_bar = bars["q"] + bar["q_bar"]
        v_bar = bars["v"] + bar["v_bar"]
        u_bar = bar["u_bar"]
        q0_bar = bar["q0_bar"]
        v0_bar = bar["v0_bar"]
        f_bar = np.zeros(1)
        act_bar = {f"{name}_bar": np.zeros_like(value) for name, value in self.act.items()}
        for state in reversed(run.states):
            bar = self._back({**state, "q_bar": q_bar, "v_bar": v_bar, **act_bar})
            act_bar = {name: bar[name] for name in act_bar}
            q_bar = bar["q_bar"]
            v_bar = bar["v_bar"]
            u_bar = u_bar + bar["u_bar"]
            f_bar = f_bar + bar["f_bar"]
        raw = evaluate(self._enter_back, {"q": x["q"], "q_bar": q_bar + q0_bar})["q_bar"]
        return {"q": raw, "v": v_bar + v0_bar, "u": u_bar, "f": f_bar}

    @cached_property
    def _forth(self) -> Callable[[Groups], Groups]:
        return as_function(with_branches(self.substep))

    @cached_property
    def _back(self) -> Callable[[Groups], Groups]:
        return as_function(adjoint(self.substep, (*INPUTS, *self.act)))

    @cached_property
    def _read(self) -> Program:
        return with_branches(self.readout)

    @cached_property
    def _read_back(self) -> Program:
        return adjoint(self.readout, ["q", "v", "u", "q0", "v0"])

    @cached_property
    def _enter_back(self) -> Program:
        return adjoint(self.normalize_state, ["q"])


def between(start: Groups, end: Groups) -> Groups:
    """What readouts see."""
    act = {"act": end["act"], "act0": start["act"]} if "act" in start else {}
    return {"q": end["q"], "v": end["v"], "u": start["u"], "q0": start["q"], "v0": start["v"], **act}


def with_branches(program: Program) -> Program:
    """The program with one more output: a difference per select, whose sign tells the side that was taken."""
    return Program(program.graph, program.inputs, {**program.outputs, "branches": differences(program)})


def differences(program: Program) -> list[Real]:
    """Of both sides of every select, also of those in loops, row by row."""
    graph, found = program.graph, []
    for index in program.live():
        operation, *arguments = graph.nodes[index]
        values = [graph.argument(a) for a in arguments] if program.source(index) is None else []
        if isinstance(call := graph.calls.get(index), RowCall):
            inner = copy(call.function)
            each = differences(inner.program)
            inner.program = replace(inner.program, outputs={"sums": [], "each": each})
            found += graph.call(RowCall(inner, call.rows), values[1:], len(each) * len(call.rows))
        elif operation in ("min", "max", "less", "abs"):
            found.append(values[0] if operation == "abs" else values[0] - values[1])
    return found


def relative(got: np.ndarray, wanted: np.ndarray) -> float:
    """Distance of two vectors of numbers over the length of the second."""
    return float(np.linalg.norm(got - wanted) / (np.linalg.norm(wanted) + TINY))
