"""Undisturbed runs, one per algorithm, with which attacked runs are compared and from which they start."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from faults.commands import Ended, Starter
from faults.moments import Hook, Moment, read_record
from faults.runs import training

__all__ = ["Reference", "for_each", "make_references"]

Made = TypeVar("Made")

SEED, TWIN_SEED = 0, 1
STOPPED = 130


@dataclass(frozen=True)
class Reference:
    """The runs of one algorithm."""

    algo: str
    device: str
    whole: Path
    """A run that was never stopped."""
    operations: tuple[tuple[str, str], ...]
    """Event and kind of its file operations."""
    seconds: float
    """Duration of the run [s]."""
    begun: Path
    """The same run, stopped in the middle and evaluated."""
    twin: Path
    """A run like it with another seed."""


def make_references(algos: Sequence[str], folder: Path, device: str, fork: bool, jobs: int = 1) -> dict[str, Reference]:
    """Train the references, `jobs` in parallel."""
    return for_each(algos, lambda algo: _made(algo, folder, device, fork), jobs)


def for_each(algos: Iterable[str], make: Callable[[str], Made], jobs: int) -> dict[str, Made]:
    """Apply a function to each algorithm, in parallel unless processes are forked: forks and threads do not mix."""
    if jobs == 1:
        return {algo: make(algo) for algo in algos}
    with ThreadPoolExecutor(jobs) as pool:
        running = {algo: pool.submit(make, algo) for algo in algos}
    return {algo: made.result() for algo, made in running.items()}


def _made(algo: str, folder: Path, device: str, fork: bool) -> Reference:
    sys.stderr.write(f"reference runs of {algo}\n")
    starter = Starter(folder / "logs" / algo, fork)
    record = folder / f"{algo}.operations"
    whole = folder / "whole" / algo
    hook = Hook(str(whole.parent), record=str(record))
    done = _well(starter.start(training(algo, whole.parent, algo, device), hook).wait())
    operations = tuple(read_record(record))
    begun, twin = (
        _begun(starter, training(algo, folder / place, algo, device, seed), folder / place / algo, operations)
        for place, seed in (("begun", SEED), ("twin", TWIN_SEED))
    )
    return Reference(algo, device, whole, operations, done.seconds, begun, twin)


def _begun(starter: Starter, command: list[str], folder: Path, operations: tuple[tuple[str, str], ...]) -> Path:
    """Stopped by SIGTERM in the iteration after its second numbered checkpoint, and evaluated."""
    numbered = [k for k, operation in enumerate(operations) if operation == ("rename", "iteration.safetensors")]
    row = next(k for k in range(numbered[1], len(operations)) if operations[k][1] == "metrics.csv")
    count = operations[: row + 1].count(operations[row])
    hook = Hook(str(folder.parent), Moment(*operations[row], count, signal=signal.SIGTERM))
    stopped = starter.start(command, hook).wait()
    if stopped.status != STOPPED:
        raise RuntimeError(f"a run that was asked to end did so with {stopped.status}: {stopped.err}")
    _well(starter.run("eval", folder))
    return folder


def _well(ended: Ended) -> Ended:
    if ended.status != 0:
        raise RuntimeError(f"a run that nothing happened to ended with {ended.status}: {ended.err}")
    return ended
