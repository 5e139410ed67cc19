"""Distributed training: several processes (ranks), each with an equal share of the worlds.

In a single process all operations return their input. With several ranks every operation gathers the values of all
ranks; each rank then computes the same result from the same numbers in the same order, so that ranks stay identical.
Sizes are fixed and no operation depends on a value: all except `run_on_rank_zero` can be captured in a CUDA graph.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor

from ahac.core.errors import AhacError, InputError

__all__ = ["SINGLE_PROCESS", "ProcessGroup", "ProcessGroupError", "init_distributed"]

Result = TypeVar("Result")

TIMEOUT = timedelta(minutes=20)
"""Time that ranks wait for each other, which includes compiling kernels: each rank compiles its own."""


class ProcessGroupError(AhacError, RuntimeError):
    """The other ranks no longer respond."""


@dataclass(frozen=True)
class ProcessGroup:
    """This process's rank among those that train together, and the collective operations between them."""

    rank: int = 0
    """Index of this process, from 0 to `size` - 1."""
    size: int = 1
    """Number of ranks."""
    local: int = 0
    """Index of this process on its machine, which is also the index of its GPU."""
    local_size: int = 1
    """Number of ranks on this machine."""

    @property
    def is_main(self) -> bool:
        """Whether this is rank zero, which logs progress and writes files."""
        return self.rank == 0

    def local_count(self, worlds: int) -> int:
        """Return the number of worlds per rank.

        Raises:
            InputError: If the number of worlds is not a multiple of the number of ranks.
        """
        if worlds % self.size:
            below = worlds - worlds % self.size
            alternatives = " or ".join(str(x) for x in (below, below + self.size) if x)
            raise InputError(
                f"num_envs must be a multiple of the number of ranks, {self.size}, got {worlds}; use "
                f"{alternatives}, or a number of ranks that divides it (torchrun --nproc-per-node)"
            )
        return worlds // self.size

    def local_slice(self, x: Tensor) -> Tensor:
        """Return the rows of this rank's worlds from a tensor with one row per world of all ranks."""
        return x if self.size == 1 else x.tensor_split(self.size)[self.rank]

    def gather(self, x: Tensor, dim: int = 0) -> Tensor:
        """Concatenate the tensors of all ranks along `dim`, in the order of the worlds."""
        return x if self.size == 1 else torch.cat(self._gather_list(x).unbind(), dim=dim)

    def mean(self, x: Tensor) -> Tensor:
        """Return the mean over ranks; for means over a rank's worlds this is the mean over all worlds."""
        return x if self.size == 1 else self._gather_list(x).mean(dim=0)

    def means(self, numbers: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the means over ranks of several scalars, in one message."""
        if self.size == 1:
            return numbers
        stacked = self.mean(torch.stack([x.double() for x in numbers.values()]))
        return dict(zip(numbers, stacked.unbind(), strict=True))

    def max(self, x: Tensor) -> Tensor:
        """Return the elementwise maximum over ranks; NaN if it is NaN on any rank."""
        return x if self.size == 1 else self._gather_list(x).amax(dim=0)

    def all(self, flag: Tensor) -> Tensor:
        """Return, elementwise, whether a flag is true on all ranks."""
        return flag if self.size == 1 else self._gather_list(flag).all(dim=0)

    def any(self, flag: Tensor) -> Tensor:
        """Return, elementwise, whether a flag is true on any rank."""
        return flag if self.size == 1 else self._gather_list(flag).any(dim=0)

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Average gradients over ranks, in place and in one message."""
        if self.size == 1:
            return
        grads = [p.grad for p in parameters if p.grad is not None]
        averaged = self.mean(torch.cat([grad.flatten() for grad in grads]))
        for grad, part in zip(grads, averaged.split_with_sizes([grad.numel() for grad in grads]), strict=True):
            grad.copy_(part.view_as(grad))

    def from_rank_zero(self, x: Tensor) -> Tensor:
        """Return rank zero's value, where rounding must not lead ranks to different decisions."""
        return x if self.size == 1 else self._gather_list(x)[0]

    def run_on_rank_zero(self, what: Callable[[], Result]) -> Result:
        """Call `what` on rank zero and return its result, or raise its `AhacError` or `OSError`, on all ranks."""
        if self.size == 1:
            return what()
        from torch import distributed

        result: Result | None = None
        error: Exception | None = None
        if self.is_main:
            try:
                result = what()
            except (AhacError, OSError) as raised:
                error = raised
        message = [result, error]
        with self._collective():
            distributed.broadcast_object_list(message, src=0, device=torch.device("cpu"))
        result, error = message  # pyright: ignore[reportAssignmentType]
        if error is not None:
            raise error
        return result  # pyright: ignore[reportReturnType]

    def _gather_list(self, x: Tensor) -> Tensor:
        """Return the tensors of all ranks, stacked: [ranks, ...]."""
        from torch import distributed

        sent = x.detach().contiguous()
        sent = sent.view(torch.uint8) if x.dtype == torch.bool else sent  # every backend supports uint8
        parts = sent.new_empty((self.size * sent.numel(),))
        # torch 2.12 and older only have all_gather_into_tensor, which newer versions deprecate.
        names = ("all_gather_single", "all_gather_into_tensor")
        gather = getattr(distributed, next(name for name in names if hasattr(distributed, name)))
        with self._collective():
            gather(parts, sent.flatten())
        parts = parts.view(self.size, *x.shape)
        return parts.view(torch.bool) if x.dtype == torch.bool else parts

    @contextmanager
    def _collective(self) -> Generator[None, None, None]:
        try:
            yield
        except RuntimeError as error:
            raise ProcessGroupError(
                f"rank {self.rank} of {self.size} lost contact with the other ranks: {error}; see the output of the "
                "rank that ended first"
            ) from error


SINGLE_PROCESS = ProcessGroup()
"""Process group of a program that runs in one process."""


def init_distributed() -> ProcessGroup:
    """Join the process group that torchrun started; return `SINGLE_PROCESS` without torchrun.

    Raises:
        InputError: If WORLD_SIZE is set without the other variables that torchrun sets.
    """
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return SINGLE_PROCESS
    if missing := [name for name in names if name not in os.environ]:
        raise InputError(
            f"WORLD_SIZE is set, but not {', '.join(missing)}; start with torchrun, which sets all, or unset WORLD_SIZE"
        )
    from torch import distributed

    ranks = ProcessGroup(*(int(os.environ[name]) for name in names))
    if not distributed.is_initialized():
        # Its functions have the default group as default arguments. Imported later, as torch's optimizers do, it would
        # keep the group and its threads alive after the group is destroyed, and exiting would sometimes abort.
        import torch.distributed.nn.functional  # pyright: ignore[reportUnusedImport]

        # NCCL transfers CUDA tensors, gloo CPU tensors; each is initialized on first use.
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, timeout=TIMEOUT)
        # Shutting down NCCL would wait for all ranks and for all CUDA graphs that use it; it ends with the process.
        if backend == "gloo":
            atexit.register(distributed.destroy_process_group)
    if not ranks.is_main:  # only rank zero logs what all ranks do
        logging.getLogger("ahac").setLevel(logging.ERROR)
    return ranks
