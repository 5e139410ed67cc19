"""The simulator of an environment whose physics is that of another engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.engines.engine import Drive, Engine, EngineState
from ahac.sim import Model, Simulator, State
from ahac.sim.autograd import MapKernels

__all__ = ["CONTROLS", "EngineSimulator"]

CONTROLS = "controls"
"""Context with the controls that the actuators received."""


class EngineSimulator(Simulator):
    """A simulator that leaves each step to an engine; the rest, such as readouts and poses, is its own.

    Force laws, delays and the controller act once per step: their forces and controls are held.
    """

    def __init__(self, model: Model, *, engine: Engine, context: Mapping[str, int], **settings: Any) -> None:  # noqa: ANN401 - as `Simulator`
        """Trace the readouts, the controller and the force laws; other arguments are those of `Simulator`."""
        super().__init__(model, context={**context, CONTROLS: model.nu}, **settings)
        self.context = dict(context)
        self.engine = engine
        self.last_readouts: dict[str, Tensor] = {}
        """Readouts of the last step."""
        if engine.num_worlds != self.num_worlds:
            raise InputError(f"the engine has {engine.num_worlds} worlds, the environment {self.num_worlds}")
        self._drive = MapKernels(self._launcher, "drive", self._programs.drive)
        self._readout = MapKernels(self._launcher, "readouts of a step", self._programs.readout_of_step)

    @torch.no_grad()
    def step(
        self,
        state: State,
        control: Tensor | None = None,
        force: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        parameters: Tensor | None = None,
        memory: Tensor | None = None,
    ) -> State:
        """Return the state `dt` seconds later, without gradients; arguments are those of `Simulator.step`."""
        x = self._inputs
        u, act, p = x.control(control), x.act(state), x.parameters(parameters)
        more = [tensor for tensor in (act, p, x.memory(state, u, memory)) if tensor is not None]
        driven = self._drive(*x.motion(state), u, *more)
        forces = driven["force"] if force is None else driven["force"] + x.tensor("force", force, self.model.nv)
        end = self.engine.step(EngineState(state.q, state.v, act), Drive(driven["control"], forces, p))
        inputs = [end.q, end.v, u, *([] if end.act is None else [end.act]), *more[0 if act is None else 1 :]]
        before = [state.q, state.v, *([] if act is None else [act])]
        constants = x.constants({**(context or {}), CONTROLS: driven["control"]})
        self.last_readouts = self._shaped(list(self._readout(*inputs, *before, *constants).values()))
        return State(end.q, end.v, self.last_readouts, end.act, x.later_controls(state, u))
