"""A kernel before compilation."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Source"]


@dataclass(frozen=True)
class Source:
    """C++ in which `run(task, block, part)` does one block of the work, on arrays passed as bare addresses."""

    name: str
    arrays: tuple[str, ...]
    """The arrays it takes, in the order of its addresses; an address of zero stands for one that was not given."""
    body: str
    operations: int
    """On lanes, per block and step: a measure of how long it runs, and of how long compiling takes."""
    threads_per_world: int = 1
    """CUDA threads that share a world; on the CPU there is one."""
    shared_words: int = 0
    """Numbers per world in shared memory, through which those threads speak."""
    warps: int = 1
    """Warps of 32 worlds each that a block of CUDA threads has for every part: they run the same code side by side."""
