"""Control steps in numpy, node by node and in float64: the value, the transposed derivative, and where the kinks are.

Nothing is compiled here, so that what is checked is the traced physics and its derivative, not the code made of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ahac.sim import Model
from ahac.sim.compiler.program import Program, adjoint, evaluate
from ahac.sim.physics.substep import Laws
from ahac.sim.programs import Programs, Readout

Groups = dict[str, np.ndarray]
"""Numbers by the name of their group: [size] of one world, or [batch, size]."""

INPUTS = ("q", "v", "u", "f")
OUTPUTS = ("q", "v", "y")
TINY = 1e-30
"""Keeps a ratio of two zeros at zero."""


@dataclass(frozen=True)
class Run:
    """What a chain of substeps came to."""

    end: Groups
    """q, v and the readouts y."""
    states: list[Groups]
    """q, v, u, f, h at the start of every substep."""
    branches: np.ndarray
    """[..., number of selects] which side of every minimum, maximum, comparison and absolute value was taken."""


class Chain:
    """`steps` substeps of `h` seconds, then readouts: what one call of `Simulator.step` does."""

    def __init__(
        self,
        model: Model,
        h: float,
        steps: int,
        laws: Laws | None = None,
        readouts: Mapping[str, Readout] | None = None,
    ) -> None:
        self.model, self.h, self.steps = model, h, steps
        parts = Programs(model, laws or Laws(), dict(readouts or {})).step()
        self.enter, self.substep, self.readout = parts.enter, parts.substep, parts.readout
        self.substep_back = adjoint(self.substep, INPUTS)
        self.enter_back = adjoint(self.enter, ["q"])
        self.readout_back = adjoint(self.readout, ["q", "v", "u", "q0", "v0"])
        self.watched = with_branches(self.substep)
        self.watched_readout = with_branches(self.readout)

    def run(self, x: Groups) -> Run:
        """Forward from q, v, u, f."""
        batch = np.broadcast_shapes(*(value.shape[:-1] for value in x.values()))
        state = {**{name: np.broadcast_to(x[name], (*batch, x[name].shape[-1])) for name in INPUTS}}
        state = {**state, "q": evaluate(self.enter, {"q": state["q"]})["q"], "h": np.full((*batch, 1), self.h)}
        states, branches = [], []
        for _ in range(self.steps):
            states.append(state)
            out = evaluate(self.watched, state)
            branches.append(out["branches"] < 0.0)
            state = {**state, "q": out["q"], "v": out["v"]}
        out = evaluate(self.watched_readout, self._read_from(state, states[0]))
        branches.append(out["branches"] < 0.0)
        return Run({"q": state["q"], "v": state["v"], "y": out["y"]}, states, np.concatenate(branches, axis=-1))

    def pull(self, x: Groups, run: Run, bars: Groups) -> Groups:
        """From the adjoints of q, v, y at the end of a run from `x` to those of q, v, u, f at its start."""
        seeds = {"y_bar": bars["y"]}
        bar = evaluate(self.readout_back, {**self._read_from(run.end, run.states[0]), **seeds})
        q_bar, v_bar, u_bar = bars["q"] + bar["q_bar"], bars["v"] + bar["v_bar"], bar["u_bar"]
        q0_bar, v0_bar, f_bar = bar["q0_bar"], bar["v0_bar"], 0.0
        for state in reversed(run.states):
            bar = evaluate(self.substep_back, {**state, "q_bar": q_bar, "v_bar": v_bar})
            q_bar, v_bar, u_bar, f_bar = bar["q_bar"], bar["v_bar"], u_bar + bar["u_bar"], f_bar + bar["f_bar"]
        raw = evaluate(self.enter_back, {"q": x["q"], "q_bar": q_bar + q0_bar})["q_bar"]
        return {"q": raw, "v": v_bar + v0_bar, "u": u_bar, "f": np.asarray(f_bar)}

    def _read_from(self, end: Groups, start: Groups) -> Groups:
        return {"q": end["q"], "v": end["v"], "u": start["u"], "q0": start["q"], "v0": start["v"]}


def with_branches(program: Program) -> Program:
    """The program with one more output: a difference per select, whose sign tells the side that was taken."""
    differences = []
    for index in program.live():
        operation, *arguments = program.graph.nodes[index]
        if operation in ("min", "max", "less", "abs"):
            values = [program.graph.argument(a) for a in arguments]
            differences.append(values[0] if operation == "abs" else values[0] - values[1])
    return Program(program.graph, program.inputs, {**program.outputs, "branches": differences})


def relative(got: np.ndarray, wanted: np.ndarray) -> float:
    """Distance of two vectors of numbers over the length of the second."""
    return float(np.linalg.norm(got - wanted) / (np.linalg.norm(wanted) + TINY))
