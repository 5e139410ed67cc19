"""Where kernels meet torch: the only file that knows torch.autograd.

A control step is one autograd node. Forward keeps (q, v) of every substep and nothing else; backward runs the adjoint
kernel, which recomputes the rest. Kernels read and write torch's memory in place, on torch's current CUDA stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ahac.sim.compiler.build import Kernel
from ahac.sim.compiler.emit import StepPrograms, map_source, step_adjoint_source, step_source
from ahac.sim.compiler.frame import Target
from ahac.sim.compiler.program import Program, adjoint

__all__ = ["Launcher", "MapKernels", "StepKernels"]


@dataclass(frozen=True)
class Launcher:
    """What every launch of a simulator has in common."""

    target: Target
    device: torch.device
    dtype: torch.dtype
    label: str
    threads: int

    def empty(self, *shape: int) -> Tensor:
        """A new tensor for a kernel to write."""
        return torch.empty(shape, device=self.device, dtype=self.dtype)

    def run(
        self, kernel: Kernel, tensors: Mapping[str, Tensor | None], worlds: int, steps: int = 0, h: float = 0.0
    ) -> None:
        """Launch on contiguous tensors; a missing one is passed as absent."""
        stream = torch.cuda.current_stream(self.device).cuda_stream if self.target.cuda else 0
        addresses = {name: tensor.data_ptr() for name, tensor in tensors.items() if tensor is not None}
        kernel.launch(addresses, worlds, steps, h, self.threads, stream)


class StepKernels:
    """The control step of one model: forward kernel, and adjoint kernel when it is first needed."""

    def __init__(self, launcher: Launcher, programs: StepPrograms) -> None:
        self.launcher, self.programs = launcher, programs
        self.nq, self.nv, self.nu = (len(programs.substep.inputs[g]) for g in ("q", "v", "u"))
        self.ny = len(programs.readout.outputs["y"])
        self.forward = Kernel(step_source(programs), launcher.target, launcher.label)

    @cached_property
    def backward(self) -> Kernel:
        """The adjoint kernel."""
        p = self.programs
        source = step_adjoint_source(
            adjoint(p.enter, ["q"]),
            adjoint(p.substep, ["q", "v", "u", "f"], unknowns="rate"),
            adjoint(p.readout, ["q", "v", "u", "q0", "v0"]),
        )
        return Kernel(source, self.launcher.target, self.launcher.label)

    def __call__(
        self, q: Tensor, v: Tensor, u: Tensor, f: Tensor | None, steps: int, h: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Positions, velocities and readouts after `steps` substeps of `h` seconds."""
        given = (q, v, u, f)
        record = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in given)
        if record:
            # Both kernels compile side by side the first time.
            self.forward.prepare()
            self.backward.prepare()
        return _Step.apply(self, record, steps, h, *(x if x is None else x.contiguous() for x in given))


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
    ) -> tuple[Tensor, Tensor, Tensor]:
        launcher, worlds = kernels.launcher, len(q)
        lanes = launcher.target.lanes
        padded = -(-worlds // lanes) * lanes
        kept = launcher.empty(padded * steps * (kernels.nq + kernels.nv)) if record else None
        end_q, end_v, end_y = torch.empty_like(q), torch.empty_like(v), launcher.empty(worlds, kernels.ny)
        given = {"q": q, "v": v, "u": u, "f": f, "kept": kept}
        launcher.run(kernels.forward, {**given, "next_q": end_q, "next_v": end_v, "next_y": end_y}, worlds, steps, h)
        if record:
            ctx.kernels, ctx.steps, ctx.h = kernels, steps, h
            ctx.save_for_backward(q, u, f, kept, end_q, end_v)
        return end_q, end_v, end_y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, q_bar: Tensor, v_bar: Tensor, y_bar: Tensor) -> tuple[Tensor | None, ...]:
        q, u, f, kept, end_q, end_v = ctx.saved_tensors
        kernels: StepKernels = ctx.kernels
        launcher, worlds = kernels.launcher, len(q)
        widths = {"q_bar": kernels.nq, "v_bar": kernels.nv, "u_bar": kernels.nu, "f_bar": kernels.nv}
        wanted = ctx.needs_input_grad[4:]
        bars = {name: launcher.empty(worlds, width) if want else None
                for (name, width), want in zip(widths.items(), wanted, strict=True)}  # fmt: skip
        given = {
            "q": q, "u": u, "f": f, "kept": kept, "next_q": end_q, "next_v": end_v, "next_q_bar": q_bar.contiguous(),
            "next_v_bar": v_bar.contiguous(), "next_y_bar": y_bar.contiguous(),
        }  # fmt: skip
        launcher.run(kernels.backward, {**given, **bars}, worlds, ctx.steps, ctx.h)
        return None, None, None, None, *bars.values()


class MapKernels:
    """One traced program as a differentiable function of tensors, compiled when it is first called."""

    def __init__(self, launcher: Launcher, name: str, trace: Callable[[], Program]) -> None:
        self.launcher, self.name, self._trace = launcher, name, trace

    @cached_property
    def program(self) -> Program:
        """The traced program."""
        return self._trace()

    @cached_property
    def forward(self) -> Kernel:
        """The program's kernel."""
        return self._kernel(self.name, self.program)

    @cached_property
    def backward(self) -> Kernel:
        """The kernel of its adjoint."""
        return self._kernel(f"{self.name} adjoint", adjoint(self.program, list(self.program.inputs)))

    def _kernel(self, name: str, program: Program) -> Kernel:
        return Kernel(map_source(name, program), self.launcher.target, self.launcher.label)

    def __call__(self, *inputs: Tensor) -> dict[str, Tensor]:
        """The program's output groups [N, size], by name."""
        outputs = _Map.apply(self, *(x.contiguous() for x in inputs))
        return dict(zip(self.program.outputs, outputs, strict=True))


class _Map(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: MapKernels, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.kernels = kernels
        ctx.save_for_backward(*inputs)
        return _run_map(kernels.launcher, kernels.forward, kernels.program.inputs, inputs, kernels.program.outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *bars: Tensor) -> tuple[Tensor | None, ...]:
        kernels: MapKernels = ctx.kernels
        program = kernels.program
        names = [*program.inputs, *(f"{name}_bar" for name in program.outputs)]
        wanted = {f"{name}_bar": group for name, group in program.inputs.items()}
        given = (*ctx.saved_tensors, *(bar.contiguous() for bar in bars))
        return None, *_run_map(kernels.launcher, kernels.backward, names, given, wanted)


def _run_map(
    launcher: Launcher, kernel: Kernel, names: Sequence[str] | Mapping[str, Any], inputs: Sequence[Tensor],
    outputs: Mapping[str, Sequence[Any]],
) -> tuple[Tensor, ...]:  # fmt: skip
    worlds = len(inputs[0])
    made = {f"to_{name}": launcher.empty(worlds, len(group)) for name, group in outputs.items()}
    launcher.run(kernel, {**dict(zip(names, inputs, strict=True)), **made}, worlds)
    return tuple(made.values())
