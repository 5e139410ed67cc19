"""Processes that train together, each with an equal share of the worlds.

A process alone gets back what it hands in. Between several everything is a gather: all of them then compute the same
from the same numbers in the same order, so that they cannot come apart. Sizes are fixed and nothing looks at a number:
on CUDA all of it but `ask` can be recorded.
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
"""That ranks wait for each other; kernels are compiled meanwhile, each rank by itself."""


class ProcessGroupError(AhacError, RuntimeError):
    """A rank that the others do not answer any more."""


@dataclass(frozen=True)
class ProcessGroup:
    """One of several processes, and its way to the others."""

    rank: int = 0
    size: int = 1
    local: int = 0
    """Which it is on its machine, and so which GPU is its own."""
    local_size: int = 1
    """How many there are on its machine."""

    @property
    def is_main(self) -> bool:
        """Whether this is the one that speaks and writes."""
        return self.rank == 0

    def local_count(self, worlds: int) -> int:
        """How many of all worlds each rank has."""
        if worlds % self.size:
            below = worlds - worlds % self.size
            ways = " or ".join(str(x) for x in (below, below + self.size) if x)
            raise InputError(
                f"num_envs must be a multiple of the number of ranks, {self.size}, got {worlds}; take {ways}, or as "
                "many processes as divide it (torchrun --nproc-per-node)"
            )
        return worlds // self.size

    def local_slice(self, x: Tensor) -> Tensor:
        """The rows of this rank's worlds out of those of all worlds."""
        return x if self.size == 1 else x.tensor_split(self.size)[self.rank]

    def gather(self, x: Tensor, dim: int = 0) -> Tensor:
        """Of all worlds, in their order along `dim`."""
        return x if self.size == 1 else torch.cat(self._gather_list(x).unbind(), dim=dim)

    def mean(self, x: Tensor) -> Tensor:
        """Over ranks, and so of means over equally many worlds."""
        return x if self.size == 1 else self._gather_list(x).mean(dim=0)

    def means(self, numbers: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The same of several numbers at once."""
        if self.size == 1:
            return numbers
        together = self.mean(torch.stack([x.double() for x in numbers.values()]))
        return dict(zip(numbers, together.unbind(), strict=True))

    def max(self, x: Tensor) -> Tensor:
        """Largest over ranks; not a number where one of them is not."""
        return x if self.size == 1 else self._gather_list(x).amax(dim=0)

    def all(self, flag: Tensor) -> Tensor:
        """Where it is true on all ranks."""
        return flag if self.size == 1 else self._gather_list(flag).all(dim=0)

    def any(self, flag: Tensor) -> Tensor:
        """Where it is true on any rank."""
        return flag if self.size == 1 else self._gather_list(flag).any(dim=0)

    def merge_moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the numbers of all ranks, from those of each rank's, which are equally many."""
        if self.size == 1:
            return mean, variance
        means, variances = self._gather_list(torch.stack([mean, variance])).unbind(dim=1)
        middle = means.mean(dim=0)
        return middle, (variances + (means - middle).square()).mean(dim=0)

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """In place, all in one message."""
        if self.size == 1:
            return
        grads = [p.grad for p in parameters if p.grad is not None]
        together = self.mean(torch.cat([grad.flatten() for grad in grads]))
        for grad, part in zip(grads, together.split_with_sizes([grad.numel() for grad in grads]), strict=True):
            grad.copy_(part.view_as(grad))

    def from_rank_zero(self, x: Tensor) -> Tensor:
        """What the first rank has: where rounding must not lead to two decisions."""
        return x if self.size == 1 else self._gather_list(x)[0]

    def run_on_rank_zero(self, what: Callable[[], Result]) -> Result:
        """What the first rank finds, told to all; an error that it can explain is everyone's."""
        if self.size == 1:
            return what()
        from torch import distributed

        found: Result | None = None
        problem: Exception | None = None
        if self.is_main:
            try:
                found = what()
            except (AhacError, OSError) as error:
                problem = error
        box = [found, problem]
        with self._collective():
            distributed.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        found, problem = box  # pyright: ignore[reportAssignmentType]
        if problem is not None:
            raise problem
        return found  # pyright: ignore[reportReturnType]

    def _gather_list(self, x: Tensor) -> Tensor:
        """[ranks, ...] everyone's."""
        from torch import distributed

        sent = x.detach().contiguous()
        sent = sent.view(torch.uint8) if x.dtype == torch.bool else sent  # which every backend knows
        parts = sent.new_empty((self.size * sent.numel(),))
        # all_gather_into_tensor up to torch 2.12, deprecated since
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
"""The only process."""


def init_distributed() -> ProcessGroup:
    """The ranks that torchrun started this process among; alone without it."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return SINGLE_PROCESS
    if missing := [name for name in names if name not in os.environ]:
        raise InputError(
            f"WORLD_SIZE is set, {', '.join(missing)} not; start with torchrun, which sets all, or unset it"
        )
    from torch import distributed

    ranks = ProcessGroup(*(int(os.environ[name]) for name in names))
    if not distributed.is_initialized():
        # Numbers on a GPU go by NCCL, those of the host by gloo; either is set up when it is first used.
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, timeout=TIMEOUT)
        # NCCL's end waits for all ranks, and for all CUDA graphs that know it; it is left to the end of the process.
        if backend == "gloo":
            atexit.register(distributed.destroy_process_group)
    if not ranks.is_main:  # what all would say, one says
        logging.getLogger("ahac").setLevel(logging.ERROR)
    return ranks
