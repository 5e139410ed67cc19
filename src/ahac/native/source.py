"""Kernel source code, before compilation."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Source"]


@dataclass(frozen=True)
class Source:
    """C++ body of `run(args, block, part)`, which processes one block of items (see `codegen.LaunchArgs`)."""

    name: str
    arrays: tuple[str, ...]
    """Names of the array arguments, in the order of `args.address`; the address of an omitted array is 0."""
    body: str
    operations: int
    """Lane operations per block and unit of `args.count`: an estimate of run time and of compile time."""
    threads_per_world: int = 1
    """CUDA threads that share one item; always one on the CPU."""
    shared_words: int = 0
    """Numbers per item in shared memory, through which those threads exchange values."""
    warps: int = 1
    """Warps of 32 items per part in one CUDA block; warps of the same part run the same code."""
    functions: str = ""
    """C++ functions that the body calls, defined before it."""
