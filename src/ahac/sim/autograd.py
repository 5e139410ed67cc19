"""Connect kernels to torch.autograd.

A control step is one autograd node. The forward pass saves only the state of every substep; the backward pass runs the
adjoint kernel, which recomputes the rest. Kernels work in place on torch's memory, on torch's current CUDA stream.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import torch
from torch import Tensor

from ahac.core.errors import AhacError
from ahac.core.hardware import shared_memory
from ahac.native.build import Kernel
from ahac.native.codegen import WARP, Target
from ahac.native.source import Source
from ahac.sim.compiler.emit import context_groups, map_source, step_adjoint_source, step_source
from ahac.sim.compiler.program import Program, StepPrograms, adjoint

__all__ = ["Launcher", "MapKernels", "StepKernels"]


_deriving = threading.RLock()
"""Guards traced graphs, which adjoints extend: autograd runs backward passes of CUDA tensors in separate threads."""


def _after_fork() -> None:
    """Give the child process a new lock, since it would inherit the old one in its current state."""
    global _deriving
    _deriving = threading.RLock()


if hasattr(os, "register_at_fork"):
    # A fork waits until no other thread is extending a graph, because the child could not finish it.
    os.register_at_fork(
        before=lambda: _deriving.acquire(), after_in_parent=lambda: _deriving.release(), after_in_child=_after_fork
    )


@dataclass(frozen=True)
class Launcher:
    """Settings that all kernel launches of a simulator share."""

    target: Target
    device: torch.device
    dtype: torch.dtype
    label: str
    threads: int
    """Number of CPU threads."""
    threads_per_world: int | None = None
    """CUDA threads that share a world in a step; chosen by program size and number of worlds if None."""

    @property
    def few_worlds(self) -> int:
        """Number of worlds up to which several launches cost more than one launch with as many times the worlds."""
        return 2048 if self.target.cuda else 32 * self.target.lanes * self.threads

    def build(self, source: Callable[[int], Source], program: Program, worlds: int) -> Kernel:
        """Build the kernel `source(threads_per_world)`, with as many threads as suit the program and the device."""
        if not self.target.cuda:
            return Kernel(source(1), self.target, self.label)
        threads = self.threads_per_world
        if threads is None:
            threads = _threads_per_world(program.operations(), worlds)
        kernel_source = source(threads)
        while threads > 1 and not self._fits(kernel_source):
            threads //= 2
            kernel_source = source(threads)
        wider = replace(kernel_source, warps=_warps(threads, worlds))
        return Kernel(wider if self._fits(wider) else kernel_source, self.target, self.label)

    def _fits(self, source: Source) -> bool:
        """Return whether the shared memory of a CUDA block suffices."""
        return source.shared_words * source.warps * WARP * self.dtype.itemsize <= shared_memory(self.device)

    def empty(self, *shape: int) -> Tensor:
        """Return an uninitialized tensor for a kernel to write."""
        return torch.empty(shape, device=self.device, dtype=self.dtype)

    def run(
        self, kernel: Kernel, tensors: Mapping[str, Tensor | None], worlds: int, steps: int = 0, h: float = 0.0
    ) -> None:
        """Launch a kernel on contiguous tensors; None stands for an array that is not passed."""
        stream = torch.cuda.current_stream(self.device).cuda_stream if self.target.cuda else 0
        addresses = {name: tensor.data_ptr() for name, tensor in tensors.items() if tensor is not None}
        kernel.launch(addresses, items=worlds, count=steps, scalar=h, threads=self.threads, stream=stream)


def _threads_per_world(operations: int, worlds: int) -> int:
    """Return the threads per world that were fastest on an H200 for this size (docs/performance/simulator-gpu.md)."""
    if operations <= 3000:
        return 1
    return 8 if operations > (9000 if worlds < 1024 else 15_000) and worlds <= 8192 else 4


def _warps(threads: int, worlds: int) -> int:
    """Return the warps per block for each thread of a world: two that run the same code share its instruction fetches.

    Two are used only where a block has enough registers for both.
    """
    return 2 if threads == 4 and 512 <= worlds <= 8192 else 1


INPUTS = ("q", "v", "u", "f", "act", "p", "m")
"""Inputs of a step to which gradients flow."""
SAVED = ("q", "u", "f", "p", "m")
"""Inputs that the backward pass uses; it reads the others from the saved states."""


class StepKernels:
    """Kernels of a model's control step; the adjoint kernel is generated on first use."""

    def __init__(self, launcher: Launcher, programs: StepPrograms, worlds: int) -> None:
        """Build the forward kernel; the number of worlds determines how many CUDA threads share one."""
        self.launcher = launcher
        self.programs = programs
        self.worlds = worlds
        sizes = {group: len(scalars) for group, scalars in programs.substep.inputs.items()}
        self.state = {group: sizes[group] for group in ("q", "v", "act") if group in sizes}
        """Sizes of the groups of the state; activations only if the model has any."""
        self.inputs = {group: sizes.get(group, 0) for group in INPUTS}
        self.readouts = {name: len(group) for name, group in programs.readout.outputs.items()}
        self.context = tuple(context_groups(programs.readout))
        self.forward = launcher.build(lambda threads: step_source(programs, threads), programs.substep, worlds)

    @cached_property
    def backward(self) -> Kernel:
        """The adjoint kernel, without gradients for parameters."""
        return self._adjoint_kernel(["m"])

    @cached_property
    def backward_by_parameters(self) -> Kernel:
        """The adjoint kernel, with gradients for parameters."""
        return self._adjoint_kernel(["p", "m"])

    def _adjoint_kernel(self, extra: Sequence[str]) -> Kernel:
        p = self.programs
        normalize_state = adjoint(p.normalize_state, ["q"])
        before = [f"{group}0" for group in self.state]
        further = [*list(self.state)[2:], *(group for group in extra if self.inputs[group])]
        substep = adjoint(p.substep, ["q", "v", "u", "f", *further], unknowns="qacc")
        readout = adjoint(p.readout, ["q", "v", "u", *before, *further])
        return self.launcher.build(
            lambda threads: step_adjoint_source(normalize_state, substep, readout, threads), substep, self.worlds
        )

    def __call__(
        self, state: Sequence[Tensor | None], context: Sequence[Tensor], steps: int, h: float
    ) -> tuple[Tensor, ...]:
        """Return the state and readouts after `steps` substeps of `h` seconds, from `state` = (q, v, u, f, act, p, m).

        Activations are None in a model without any, and then no part of the result. Readouts read the constants
        `context`, to which no gradient flows.
        """
        inputs = (*state, *context)
        differentiable = torch.is_grad_enabled() and any(map(_requires_grad, state))
        if differentiable:
            # The first time, both kernels compile in parallel.
            self.forward.prepare()
            with _deriving:
                self.adjoint_for(_requires_grad(state[INPUTS.index("p")])).prepare()
        return _Step.apply(self, differentiable, steps, h, *(x if x is None else x.contiguous() for x in inputs))

    def adjoint_for(self, parameters: bool) -> Kernel:
        """Return the adjoint kernel, with or without gradients for parameters."""
        return self.backward_by_parameters if parameters else self.backward


def _requires_grad(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.requires_grad


class _OnceDifferentiable(torch.autograd.Function):
    """Base of functions whose results cannot be differentiated again."""

    @staticmethod
    def backward(ctx: Any, *bars: Tensor) -> NoReturn:
        raise AhacError(
            "the simulator has no second derivatives: take gradients without create_graph=True, or detach them before "
            "they enter a loss"
        )


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernels: StepKernels, differentiable: bool, steps: int, h: float, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        given = dict(zip((*INPUTS, *kernels.context), tensors, strict=True))
        launcher, worlds = kernels.launcher, len(given["q"])
        lanes = launcher.target.lanes
        padded = -(-worlds // lanes) * lanes
        saved_states = launcher.empty(padded * steps * sum(kernels.state.values())) if differentiable else None
        results = {**kernels.state, **kernels.readouts}
        ends = {f"next_{name}": launcher.empty(worlds, size) for name, size in results.items()}
        launcher.run(kernels.forward, {**given, "saved_states": saved_states, **ends}, worlds, steps, h)
        if differentiable:
            ctx.kernels = kernels
            ctx.steps = steps
            ctx.h = h
            # Gradients of results that no loss depends on stay None, which the kernel reads as zero.
            ctx.set_materialize_grads(False)
            last = (ends[f"next_{name}"] for name in kernels.state)
            ctx.save_for_backward(*(given[name] for name in (*SAVED, *kernels.context)), saved_states, *last)
        return tuple(ends.values())

    @staticmethod
    def backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
        gradients = _StepAdjoint.apply(ctx, len(bars), *bars, *ctx.saved_tensors)
        return None, None, None, None, *gradients, *(None for _ in ctx.kernels.context)


class _StepAdjoint(_OnceDifferentiable):
    """Gradients of a step as a separate node, so that a second derivative raises an error."""

    @staticmethod
    def forward(ctx: Any, step: Any, count: int, *tensors: Any) -> tuple[Tensor | None, ...]:
        end_bars = tensors[:count]
        kernels: StepKernels = step.kernels
        last = (f"next_{name}" for name in kernels.state)
        inputs = dict(zip((*SAVED, *kernels.context, "saved_states", *last), tensors[count:], strict=True))
        launcher, worlds = kernels.launcher, len(inputs["q"])
        needed = step.needs_input_grad[4 : 4 + len(INPUTS)]
        bars = {
            f"{name}_bar": launcher.empty(worlds, width) if wanted else None
            for (name, width), wanted in zip(kernels.inputs.items(), needed, strict=True)
        }
        names = (*kernels.state, *kernels.readouts)
        ends = {
            f"next_{name}_bar": bar if bar is None else bar.contiguous()
            for name, bar in zip(names, end_bars, strict=True)
        }
        kernel = kernels.adjoint_for(bars["p_bar"] is not None)
        launcher.run(kernel, {**inputs, **ends, **bars}, worlds, step.steps, step.h)
        return tuple(bars.values())


class MapKernels:
    """One traced program as a differentiable function of tensors, compiled on the first call."""

    def __init__(self, launcher: Launcher, name: str, trace: Callable[[], Program]) -> None:
        self.launcher = launcher
        self.name = name
        self._trace = trace

    @cached_property
    def program(self) -> Program:
        """The traced program."""
        return self._trace()

    @cached_property
    def forward(self) -> Kernel:
        """Kernel of the program."""
        return Kernel(map_source(self.name, self.program), self.launcher.target, self.launcher.label)

    @cached_property
    def backward(self) -> Kernel:
        """Kernel of the program's adjoint."""
        program = adjoint(self.program, list(self.program.inputs))
        bars = [f"{name}_bar" for name in self.program.outputs]
        return Kernel(map_source(f"{self.name} adjoint", program, bars), self.launcher.target, self.launcher.label)

    def __call__(self, *inputs: Tensor) -> dict[str, Tensor]:
        """Return the program's output groups [N, size] by name."""
        with _deriving:
            self.forward.prepare()
        outputs = _Map.apply(self, *(x.contiguous() for x in inputs))
        return dict(zip(self.program.outputs, outputs, strict=True))


class _Map(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: MapKernels, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.kernels = kernels
        ctx.set_materialize_grads(False)  # as in `_Step`
        ctx.save_for_backward(*inputs)
        return _run_map(kernels.launcher, kernels.forward, kernels.program.inputs, inputs, kernels.program.outputs)

    @staticmethod
    def backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, *_MapAdjoint.apply(ctx.kernels, *ctx.saved_tensors, *bars)


class _MapAdjoint(_OnceDifferentiable):
    @staticmethod
    def forward(ctx: Any, kernels: MapKernels, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        program = kernels.program
        with _deriving:
            kernels.backward.prepare()
        names = [*program.inputs, *(f"{name}_bar" for name in program.outputs)]
        outputs = {f"{name}_bar": group for name, group in program.inputs.items()}
        inputs = [x if x is None else x.contiguous() for x in tensors]
        return _run_map(kernels.launcher, kernels.backward, names, inputs, outputs)


def _run_map(
    launcher: Launcher,
    kernel: Kernel,
    names: Sequence[str] | Mapping[str, Any],
    inputs: Sequence[Tensor | None],
    outputs: Mapping[str, Sequence[Any]],
) -> tuple[Tensor, ...]:
    worlds = next(len(x) for x in inputs if x is not None)
    results = {f"to_{name}": launcher.empty(worlds, len(group)) for name, group in outputs.items()}
    launcher.run(kernel, {**dict(zip(names, inputs, strict=True)), **results}, worlds)
    return tuple(results.values())
