"""Check and complete the tensors that a simulator receives."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ahac.core.checks import check_tensor
from ahac.core.errors import InputError
from ahac.sim.model.parameters.selection import Parameters
from ahac.sim.model.types import Model
from ahac.sim.state import State

__all__ = ["Inputs"]


@dataclass
class Inputs:
    """What the steps of one simulator take as inputs; every method checks a tensor, or fills in its default."""

    model: Model
    num_worlds: int
    device: torch.device
    dtype: torch.dtype
    context: Mapping[str, int]
    """Sizes of the groups of constants for readouts."""
    declared: Parameters | None
    """Constants of the model that are inputs."""
    memory_sizes: Mapping[str, int]
    """Sizes of the groups of memory."""
    past_controls: int = 0
    """Number of earlier controls that a step depends on."""
    validate: bool = True
    """Whether to check that parameters are physical."""
    _defaults: Tensor | None = field(default=None, init=False)
    _valid: tuple[weakref.ref[Tensor], int] | None = field(default=None, init=False)
    """The parameters that were last found to be physical, and their version, which changes in place."""

    def tensor(self, name: str, value: Tensor, width: int) -> Tensor:
        """Return a tensor [N, width], or raise InputError."""
        return check_tensor(name, value, (self.num_worlds, width), self.dtype, self.device)

    def zeros(self, width: int) -> Tensor:
        """Return zeros [N, width]."""
        return torch.zeros(self.num_worlds, width, device=self.device, dtype=self.dtype)

    def motion(self, state: State, names: tuple[str, str] = ("state.q", "state.v")) -> tuple[Tensor, Tensor]:
        """Return positions and velocities; errors refer to them by `names`."""
        return self.tensor(names[0], state.q, self.model.nq), self.tensor(names[1], state.v, self.model.nv)

    def control(self, control: Tensor | None) -> Tensor:
        """Return the controls; zero by default."""
        return self.zeros(self.model.nu) if control is None else self.tensor("control", control, self.model.nu)

    def act(self, state: State) -> Tensor | None:
        """Return the activations of a state; None in a model without activations."""
        if not self.model.na:
            if state.act is not None and state.act.numel():
                raise InputError(f"state.act must be None, since {self.model.name!r} has no activations")
            return None
        return self.zeros(self.model.na) if state.act is None else self.tensor("state.act", state.act, self.model.na)

    def constants(self, context: Mapping[str, Tensor] | None) -> list[Tensor]:
        """Return the constants for readouts."""
        tensors = context or {}
        if tensors.keys() != self.context.keys():
            expected, got = (", ".join(names) or "none" for names in (self.context, tensors))
            raise InputError(f"this simulator was created with the context {expected}; a step got {got}")
        return [self.tensor(f"context {name!r}", tensors[name], size).detach() for name, size in self.context.items()]

    def parameters(self, values: Tensor | None) -> Tensor | None:
        """Return the values of the declared parameters; None in a simulator without parameters."""
        if self.declared is None:
            if values is not None:
                raise InputError("this simulator has no parameters: create it with parameters=model.parameters(...)")
            return None
        if values is None:
            if self._defaults is None:
                # Later steps with gradients use this tensor, too.
                with torch.inference_mode(False):
                    self._defaults = self.declared.defaults(self.num_worlds, self.device, self.dtype)
            return self._defaults
        values = self.tensor("parameters", values, self.declared.size)
        if self.validate and not self._is_valid(values) and not _capturing(self.device):
            self.declared.check(values.detach())
            self._valid = None if values.is_inference() else (weakref.ref(values), values._version)
        return values

    def _is_valid(self, values: Tensor) -> bool:
        if self._valid is None or values.is_inference():
            return False
        checked, version = self._valid
        return checked() is values and version == values._version

    def memory(self, state: State, control: Tensor, memory: Tensor | None) -> Tensor | None:
        """Return the earlier controls, for delays, and the declared memory; None in a simulator without both."""
        width = sum(self.memory_sizes.values())
        if (memory is None) == bool(width):
            expected = ", ".join(f"{name} ({size})" for name, size in self.memory_sizes.items()) or "none"
            raise InputError(f"this simulator takes memory of: {expected}; got {_describe(memory)}")
        given = [] if memory is None else [self.tensor("memory", memory, width)]
        if self.past_controls:
            given.insert(0, self._earlier(state, control).flatten(1))
        if not given:
            return None
        return given[0] if len(given) == 1 else torch.cat(given, dim=-1)

    def later_controls(self, state: State, control: Tensor) -> Tensor | None:
        """Return the earlier controls as the next step sees them; None without delays."""
        if not self.past_controls:
            return None
        return torch.cat([control[:, None], self._earlier(state, control)[:, :-1]], dim=1)

    def _earlier(self, state: State, control: Tensor) -> Tensor:
        if state.past_controls is None:
            return control[:, None].expand(-1, self.past_controls, -1)
        shape = (self.num_worlds, self.past_controls, self.model.nu)
        return check_tensor("state.past_controls", state.past_controls, shape, self.dtype, self.device)


def _describe(memory: Tensor | None) -> str:
    return "none" if memory is None else f"a tensor of shape {list(memory.shape)}"


def _capturing(device: torch.device) -> bool:
    """Return whether a CUDA graph is being captured, which must not wait for the device."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()
