"""Where kernels meet torch: the only file that knows torch.autograd.

A control step is one autograd node. Forward keeps (q, v) of every substep and nothing else; backward runs the adjoint
kernel, which recomputes the rest. Kernels read and write torch's memory in place, on torch's current CUDA stream.
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
"""A graph grows for one thread at a time; autograd runs the backward of CUDA tensors in threads of its own."""


def _after_fork() -> None:
    """In the child, which would inherit the lock as it is."""
    global _deriving
    _deriving = threading.RLock()


if hasattr(os, "register_at_fork"):
    # A fork waits for a graph that another thread is growing: the child could not finish it.
    os.register_at_fork(
        before=lambda: _deriving.acquire(), after_in_parent=lambda: _deriving.release(), after_in_child=_after_fork
    )


@dataclass(frozen=True)
class Launcher:
    """What every launch of a simulator has in common."""

    target: Target
    device: torch.device
    dtype: torch.dtype
    label: str
    threads: int
    """On the CPU."""
    threads_per_world: int | None = None
    """CUDA threads that share a world in a step; by default as many as pay off."""

    def build(self, source: Callable[[int], Source], program: Program, worlds: int) -> Kernel:
        """A kernel in which several threads share a world, as `source(parts)` writes it around the program."""
        if not self.target.cuda:
            return Kernel(source(1), self.target, self.label)
        parts = (
            _threads_per_world(len(program.live()), worlds)
            if self.threads_per_world is None
            else self.threads_per_world
        )
        written = source(parts)
        while parts > 1 and not self._fits(written):
            parts //= 2
            written = source(parts)
        wider = replace(written, warps=_warps(parts, worlds))
        return Kernel(wider if self._fits(wider) else written, self.target, self.label)

    def _fits(self, source: Source) -> bool:
        """Whether a block of CUDA threads may have so much shared memory."""
        return source.shared_words * source.warps * WARP * self.dtype.itemsize <= shared_memory(self.device)

    def empty(self, *shape: int) -> Tensor:
        """A new tensor for a kernel to write."""
        return torch.empty(shape, device=self.device, dtype=self.dtype)

    def run(
        self, kernel: Kernel, tensors: Mapping[str, Tensor | None], worlds: int, steps: int = 0, h: float = 0.0
    ) -> None:
        """Launch on contiguous tensors; a missing one is passed as absent."""
        stream = torch.cuda.current_stream(self.device).cuda_stream if self.target.cuda else 0
        addresses = {name: tensor.data_ptr() for name, tensor in tensors.items() if tensor is not None}
        kernel.launch(addresses, items=worlds, count=steps, scalar=h, threads=self.threads, stream=stream)


def _threads_per_world(operations: int, worlds: int) -> int:
    """CUDA threads per world that made a substep of so many operations fastest on an H200 (docs/performance.md)."""
    if operations <= 3000:
        return 1
    return 8 if operations > (9000 if worlds < 1024 else 15_000) and worlds <= 8192 else 4


def _warps(parts: int, worlds: int) -> int:
    """Warps per part and block: two that run the same code fetch it once, where a block has registers for both."""
    return 2 if parts == 4 and 512 <= worlds <= 8192 else 1


class StepKernels:
    """The control step of one model: forward kernel, and adjoint kernel when it is first needed."""

    def __init__(self, launcher: Launcher, programs: StepPrograms, worlds: int) -> None:
        """For so many worlds: how a kernel is divided among threads depends on it."""
        self.launcher = launcher
        self.programs = programs
        self.worlds = worlds
        self.nq, self.nv, self.nu = (len(programs.substep.inputs[g]) for g in ("q", "v", "u"))
        self.readouts = {name: len(group) for name, group in programs.readout.outputs.items()}
        self.context = tuple(context_groups(programs.readout))
        self.forward = launcher.build(lambda parts: step_source(programs, parts), programs.substep, worlds)

    @cached_property
    def backward(self) -> Kernel:
        """The adjoint kernel."""
        p = self.programs
        enter = adjoint(p.normalize_state, ["q"])
        substep = adjoint(p.substep, ["q", "v", "u", "f"], unknowns="qacc")
        readout = adjoint(p.readout, ["q", "v", "u", "q0", "v0"])
        return self.launcher.build(
            lambda parts: step_adjoint_source(enter, substep, readout, parts), substep, self.worlds
        )

    def __call__(
        self, state: Sequence[Tensor | None], context: Sequence[Tensor], steps: int, h: float
    ) -> tuple[Tensor, ...]:
        """Positions, velocities and readouts after `steps` substeps of `h` seconds, from `state` = (q, v, u, f).

        `context` are constants that the readouts see: no gradient reaches them.
        """
        given = (*state, *context)
        record = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in state)
        if record:
            # Both kernels compile side by side the first time.
            self.forward.prepare()
            with _deriving:
                self.backward.prepare()
        return _Step.apply(self, record, steps, h, *(x if x is None else x.contiguous() for x in given))


class _Once(torch.autograd.Function):
    """A function whose result cannot be differentiated further."""

    @staticmethod
    def backward(ctx: Any, *bars: Tensor) -> NoReturn:
        raise AhacError(
            "a second derivative of the simulator was asked for, which it does not have: take gradients without "
            "create_graph=True, or detach them before they enter a loss"
        )


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0913 - the inputs of a step
        ctx: Any,
        kernels: StepKernels,
        record: bool,
        steps: int,
        h: float,
        q: Tensor,
        v: Tensor,
        u: Tensor,
        f: Tensor | None,
        *context: Tensor,
    ) -> tuple[Tensor, ...]:
        launcher, worlds = kernels.launcher, len(q)
        lanes = launcher.target.lanes
        padded = -(-worlds // lanes) * lanes
        saved_states = launcher.empty(padded * steps * (kernels.nq + kernels.nv)) if record else None
        ends = {"next_q": torch.empty_like(q), "next_v": torch.empty_like(v)}
        ends |= {f"next_{name}": launcher.empty(worlds, size) for name, size in kernels.readouts.items()}
        given = {
            "q": q,
            "v": v,
            "u": u,
            "f": f,
            "saved_states": saved_states,
            **dict(zip(kernels.context, context, strict=True)),
        }
        launcher.run(kernels.forward, {**given, **ends}, worlds, steps, h)
        if record:
            ctx.kernels = kernels
            ctx.steps = steps
            ctx.h = h
            # What no loss depends on comes back as None, and counts as zero in the kernel.
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(q, u, f, saved_states, ends["next_q"], ends["next_v"], *context)
        return tuple(ends.values())

    @staticmethod
    def backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
        gradients = _StepAdjoint.apply(ctx, len(bars), *bars, *ctx.saved_tensors)
        return None, None, None, None, *gradients, *(None for _ in ctx.kernels.context)


class _StepAdjoint(_Once):
    """Gradients of a step as a node of their own, so that whoever differentiates them again is told."""

    @staticmethod
    def forward(ctx: Any, step: Any, count: int, *tensors: Any) -> tuple[Tensor | None, ...]:
        given, (q, u, f, saved_states, end_q, end_v, *rest) = tensors[:count], tensors[count:]
        kernels: StepKernels = step.kernels
        context = dict(zip(kernels.context, rest, strict=True))
        launcher, worlds = kernels.launcher, len(end_q)
        widths = {"q_bar": kernels.nq, "v_bar": kernels.nv, "u_bar": kernels.nu, "f_bar": kernels.nv}
        bars = {
            name: launcher.empty(worlds, width) if wanted else None
            for (name, width), wanted in zip(widths.items(), step.needs_input_grad[4:8], strict=True)
        }
        inputs = {"q": q, "u": u, "f": f, "saved_states": saved_states, "next_q": end_q, "next_v": end_v, **context}
        names = ("q", "v", *kernels.readouts)
        ends = {
            f"next_{name}_bar": bar if bar is None else bar.contiguous() for name, bar in zip(names, given, strict=True)
        }
        launcher.run(kernels.backward, {**inputs, **ends, **bars}, worlds, step.steps, step.h)
        return tuple(bars.values())


class MapKernels:
    """One traced program as a differentiable function of tensors, compiled when it is first called."""

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
        """The program's kernel."""
        return Kernel(map_source(self.name, self.program), self.launcher.target, self.launcher.label)

    @cached_property
    def backward(self) -> Kernel:
        """The kernel of its adjoint."""
        program = adjoint(self.program, list(self.program.inputs))
        bars = [f"{name}_bar" for name in self.program.outputs]
        return Kernel(map_source(f"{self.name} adjoint", program, bars), self.launcher.target, self.launcher.label)

    def __call__(self, *inputs: Tensor) -> dict[str, Tensor]:
        """The program's output groups [N, size], by name."""
        with _deriving:
            self.forward.prepare()
        outputs = _Map.apply(self, *(x.contiguous() for x in inputs))
        return dict(zip(self.program.outputs, outputs, strict=True))


class _Map(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: MapKernels, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.kernels = kernels
        ctx.set_materialize_grads(False)  # as of a step: what is None counts as zero in the kernel
        ctx.save_for_backward(*inputs)
        return _run_map(kernels.launcher, kernels.forward, kernels.program.inputs, inputs, kernels.program.outputs)

    @staticmethod
    def backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, *_MapAdjoint.apply(ctx.kernels, *ctx.saved_tensors, *bars)


class _MapAdjoint(_Once):
    @staticmethod
    def forward(ctx: Any, kernels: MapKernels, *given: Tensor | None) -> tuple[Tensor, ...]:
        program = kernels.program
        with _deriving:
            kernels.backward.prepare()
        names = [*program.inputs, *(f"{name}_bar" for name in program.outputs)]
        wanted = {f"{name}_bar": group for name, group in program.inputs.items()}
        inputs = [x if x is None else x.contiguous() for x in given]
        return _run_map(kernels.launcher, kernels.backward, names, inputs, wanted)


def _run_map(
    launcher: Launcher,
    kernel: Kernel,
    names: Sequence[str] | Mapping[str, Any],
    inputs: Sequence[Tensor | None],
    outputs: Mapping[str, Sequence[Any]],
) -> tuple[Tensor, ...]:
    worlds = next(len(x) for x in inputs if x is not None)
    made = {f"to_{name}": launcher.empty(worlds, len(group)) for name, group in outputs.items()}
    launcher.run(kernel, {**dict(zip(names, inputs, strict=True)), **made}, worlds)
    return tuple(made.values())
