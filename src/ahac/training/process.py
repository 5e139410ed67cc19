"""What a run asks of the process that it trains in: torch's settings, signals, and to be alone in its folder."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from ahac.core.distributed import ProcessGroup
from ahac.core.errors import InputError
from ahac.core.files import explain_write_errors
from ahac.core.hardware import pin_to_cores, split_cores
from ahac.training.config import RunConfig

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["StopRequest", "catch_signals", "exclusive_lock", "pin_rank", "torch_settings"]

logger = logging.getLogger("ahac")

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"
CUBLAS_FIXED = ":4096:8"
"""Eight buffers of 4 MiB each, with which cuBLAS repeats its sums in the same order; torch asks for it by name."""


@contextmanager
def torch_settings(config: RunConfig, device: torch.device) -> Iterator[None]:
    """A run's threads and determinism, and those of the program afterwards.

    cuBLAS looks at its setting when the process first multiplies matrices on the GPU. A program that has done so
    before sets CUBLAS_WORKSPACE_CONFIG=:4096:8 itself, before it starts.
    """
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    workspace = os.environ.get(CUBLAS)
    torch.set_num_threads(config.torch_threads)
    torch.use_deterministic_algorithms(config.deterministic)
    # One of several GPUs is the current one meanwhile: graphs and NCCL look at that.
    current = nullcontext() if device.index is None else torch.cuda.device(device)
    if config.deterministic and device.type == "cuda":
        os.environ.setdefault(CUBLAS, CUBLAS_FIXED)
    try:
        with current:
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        if workspace is None:
            os.environ.pop(CUBLAS, None)


def pin_rank(ranks: ProcessGroup, device: torch.device) -> AbstractContextManager[None]:
    """Where ranks compute on the CPU, each is on cores of its own meanwhile."""
    alone_here = ranks.local_size == 1 or device.type != "cpu"
    return nullcontext() if alone_here else pin_to_cores(split_cores(ranks.local_size)[ranks.local])


@dataclass
class StopRequest:
    """Whether an end was asked for, and whether there is anything worth waiting for."""

    requested: bool = False
    """Training ends after this iteration."""
    can_wait: bool = False
    """An iteration is waited for. Before the first one is through, kernels are compiled and nothing can be lost."""
    interrupted: bool = False
    """A second signal came while something was written, and ends training once that is done."""
    writing: int = 0
    """How many `uninterrupted` blocks are open."""

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Let signals wait until what is done inside is complete."""
        self.writing += 1
        try:
            yield
        finally:
            self.writing -= 1
        if self.interrupted and not self.writing:
            self.interrupted = False
            raise KeyboardInterrupt


@contextmanager
def catch_signals() -> Iterator[StopRequest]:
    """Note Ctrl-C, SIGTERM or a closed terminal (SIGHUP) instead of ending in the middle of an iteration.

    A second or an early signal ends at once, but never in the middle of a write. A SIGHUP that was ignored before, as
    under nohup, stays ignored.
    """
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, frame: object) -> None:
        if (stop.requested and number != hangup) or not stop.can_wait:
            if not stop.writing:
                raise KeyboardInterrupt
            stop.interrupted = True
        elif not stop.requested:
            logger.warning("stopping after this iteration, with a checkpoint; press Ctrl-C again to stop immediately")
        stop.requested = True

    hangup = getattr(signal, "SIGHUP", None)  # which Windows does not have
    heard = [signal.SIGINT, signal.SIGTERM]
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        heard.append(hangup)
    before = {number: signal.signal(number, ask) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Hold a run's folder: two processes that train in it would spoil each other's checkpoints.

    The system lets go of the lock when the process ends, however it ends.
    """
    if fcntl is None:
        yield
        return
    with explain_write_errors(lock := folder / ".lock"):
        file = lock.open("a+", encoding="utf-8")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"{folder} is in use: another process is training it; wait until it finishes, or stop it"
            ) from error
        except OSError as error:  # some network file systems have no locks
            logger.warning("%s cannot be locked (%s); make sure that no other process is training it", folder, error)
        yield
