"""Process-wide state during training: torch settings, CPU affinity, signal handlers and the run folder lock."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Generator
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

__all__ = ["LOCK", "StopRequest", "catch_signals", "exclusive_lock", "pin_rank", "torch_settings"]

logger = logging.getLogger("ahac")

LOCK = ".lock"
"""File in a run folder that is locked while a process trains there."""
LOCK_INTERVAL = 0.05
"""Time between two attempts to lock a folder [s]."""
CUBLAS = "CUBLAS_WORKSPACE_CONFIG"
CUBLAS_FIXED = ":4096:8"
"""Eight buffers of 4 MiB, with which cuBLAS is deterministic; torch requires this setting or :16:8."""


@contextmanager
def torch_settings(config: RunConfig, device: torch.device) -> Generator[None, None, None]:
    """Apply a run's thread count, determinism, precision and current GPU inside the block; restore them on exit.

    cuBLAS reads its setting at the first matrix product on the GPU. A program that uses the GPU before training must
    set CUBLAS_WORKSPACE_CONFIG=:4096:8 before it starts.
    """
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    precision = torch.get_float32_matmul_precision()
    workspace = os.environ.get(CUBLAS)
    torch.set_num_threads(config.torch_threads)
    torch.use_deterministic_algorithms(config.deterministic)
    # CUDA graphs and NCCL use the current GPU. torch declares `index` as int, but "cpu" and "cuda" have none.
    has_index = device.index is not None  # pyright: ignore[reportUnnecessaryComparison]
    current = torch.cuda.device(device) if has_index else nullcontext()
    if config.deterministic and device.type == "cuda":
        os.environ.setdefault(CUBLAS, CUBLAS_FIXED)
    if config.tf32 and device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    try:
        with current:
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        if workspace is None:
            os.environ.pop(CUBLAS, None)


def pin_rank(ranks: ProcessGroup, device: torch.device) -> AbstractContextManager[None]:
    """Pin this rank to its share of the cores inside the block if several ranks of this machine compute on the CPU."""
    shares_cores = ranks.local_size > 1 and device.type == "cpu"
    return nullcontext() if not shares_cores else pin_to_cores(split_cores(ranks.local_size)[ranks.local])


@dataclass
class StopRequest:
    """State shared between the signal handler and the training loop."""

    requested: bool = False
    """Training stops after this iteration."""
    can_wait: bool = False
    """Whether a signal waits for the iteration to end; false until the first one ends, as nothing can be lost yet."""
    interrupted: bool = False
    """A second signal arrived during a write; training stops as soon as the write is complete."""
    writing: int = 0
    """Number of open `uninterrupted` blocks."""

    @contextmanager
    def uninterrupted(self) -> Generator[None, None, None]:
        """Defer signals until the block is complete."""
        self.writing += 1
        try:
            yield
        finally:
            self.writing -= 1
        if self.interrupted and not self.writing:
            self.interrupted = False
            raise KeyboardInterrupt


@contextmanager
def catch_signals() -> Generator[StopRequest, None, None]:
    """Turn Ctrl-C, SIGTERM or a closed terminal (SIGHUP) into a request to stop after the current iteration.

    A second signal, or one before the first iteration is complete, stops immediately, but never during a write. A
    SIGHUP that was ignored before, as under nohup, stays ignored.
    """
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: object) -> None:
        if (stop.requested and number != hangup) or not stop.can_wait:
            if not stop.writing:
                raise KeyboardInterrupt
            stop.interrupted = True
        elif not stop.requested:
            logger.warning("stopping after this iteration, with a checkpoint; press Ctrl-C again to stop immediately")
        stop.requested = True

    hangup = getattr(signal, "SIGHUP", None)  # missing on Windows
    signals = [signal.SIGINT, signal.SIGTERM]
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        signals.append(hangup)
    previous = {number: signal.signal(number, handle) for number in signals}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def exclusive_lock(folder: Path, timeout: float = 1.0) -> Generator[None, None, None]:
    """Lock a run folder: two processes training in it would overwrite each other's checkpoints.

    The operating system releases the lock when the process ends, even if it is killed. A process that only looks
    whether a folder is in use also locks it, for an instant: `timeout` is how long to wait for the lock [s].
    """
    if fcntl is None:
        yield
        return
    with explain_write_errors(lock := folder / LOCK):
        file = lock.open("a+", encoding="utf-8")
    end = time.monotonic() + timeout
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= end:
                    raise InputError(
                        f"{folder} is in use: another process is training it; wait until it finishes, or stop it"
                    ) from error
                time.sleep(LOCK_INTERVAL)
                continue
            except OSError as error:  # some network file systems do not support locks
                logger.warning(
                    "%s cannot be locked (%s); make sure that no other process is training it", folder, error
                )
            break
        yield
