"""Compiled kernels: built in background threads, cached on disk, launched on CPU threads or on a CUDA stream."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ahac.core.errors import CompileError
from ahac.core.hardware import usable_cores
from ahac.native import warp_kernels
from ahac.native.cache import Contents, Module, check, contents, discard, exclusive, record, unwritable
from ahac.native.codegen import MAX_ARRAYS, WARP, LaunchArgs, Target, wrap_kernel
from ahac.native.source import Source
from ahac.native.threads import run_with_helpers

__all__ = ["Kernel", "cache_contents", "compile_seconds", "wait_for_pending_builds"]

logger = logging.getLogger("ahac")

NOTICE_AFTER_SECONDS = 0.5
"""Seconds of waiting after which a build is logged; loading a cached kernel takes a tenth of that."""
MIN_WORK_TO_SHARE = 5e5
"""Lane operations per thread (about 0.2 ms) below which waking up another thread costs more than it saves."""

MIN_FREE_BYTES = 2**20
"""Free bytes required in the kernel cache, in addition to `FREE_BYTES_PER_SOURCE_BYTE` per byte of source."""
FREE_BYTES_PER_SOURCE_BYTE = 8
"""Upper bound of the size of all compiled files, per byte of source."""


class Kernel:
    """A compiled kernel; the first `prepare` or `launch` starts compiling it in a background thread."""

    def __init__(self, source: Source, target: Target, label: str) -> None:
        self.source = source
        self.target = target
        self.label = f"{source.name} of {label!r}"
        self._block_items = WARP * source.warps
        self._block = self._block_items * source.threads_per_world if target.cuda else 1
        self._local = threading.local()
        self._started = False
        self._ready = threading.Event()
        self._builder: threading.Thread | None = None
        self._failure: Exception | None = None
        self._kernel: Any = None

    def prepare(self) -> None:
        """Start compiling in the background and return immediately."""
        with _starting:
            if not self._started:
                self._started = True
                _building.add(self)
                _builders.submit(self._build)

    def launch(
        self,
        addresses: Mapping[str, int],
        *,
        items: int,
        count: int = 0,
        scalar: float = 0.0,
        threads: int = 1,
        stream: int = 0,
        blocks: int | None = None,
    ) -> None:
        """Run the kernel; wait until it is compiled, if necessary.

        Args:
            addresses: Memory addresses of the arrays, by name; the kernel sees an omitted array as 0.
            items: Number of items, e.g. worlds or rows of a batch.
            count: Integer passed to the kernel, e.g. the number of substeps or the index of a minibatch.
            scalar: Number passed to the kernel, e.g. the time step.
            threads: Maximum number of CPU threads.
            stream: Handle of the CUDA stream.
            blocks: Number of blocks; by default one per group of SIMD lanes on the CPU and one per group of warps on
                CUDA.
        """
        self._wait()
        slots = [addresses.get(name, 0) for name in self.source.arrays]
        if self.target.cuda:
            params = (slots + [0] * (MAX_ARRAYS - len(slots)), scalar, items, count)
            grid = -(-items // self._block_items) if blocks is None else blocks
            warp_kernels.launch_cuda(self._command(), params, grid * self._block, self.target.device, stream)
            return
        if blocks is None:
            blocks = -(-items // self.target.lanes)
            threads = min(threads, int(blocks * max(count, 1) * self.source.operations / MIN_WORK_TO_SHARE))
        run_with_helpers(self._work, LaunchArgs.of(slots, items, count, scalar, blocks), min(threads, blocks) - 1)

    def _work(self, args: LaunchArgs) -> None:
        """Run one thread's share of a CPU launch."""
        command = self._command()
        command.set_param_at_index_from_ctype(0, ctypes.addressof(args))
        command.launch()

    def _command(self) -> Any:
        """Return this thread's launch command; threads must not share one, as every launch writes into it."""
        command = getattr(self._local, "command", None)
        if command is None:
            with _starting:  # no fork while Warp holds its locks
                command = warp_kernels.new_command(self._kernel, self.target, self._block)
            self._local.command = command
        return command

    def _wait(self) -> None:
        if self._ready.is_set() and self._failure is None:
            return
        self.prepare()
        with _blocked.waiting():
            if not self._ready.wait(NOTICE_AFTER_SECONDS):
                logger.warning("compiling the %s for %s; later runs load it from disk", self.label, self.target.device)
                self._ready.wait()
        if (failure := self._failure) is not None:
            raise CompileError(str(failure)) from failure.__cause__

    def compile_for(self, arch: int, folder: Path) -> None:
        """Compile for the compute capability `arch` into a folder; no such GPU is needed."""
        warp_kernels.compile_ahead(self._define(), arch, folder)

    def _build(self) -> None:
        self._builder = threading.current_thread()
        try:
            self._kernel = self._define()
            self._load()
        except CompileError as error:
            self._failure = error
        except Exception as error:  # raised again in the thread that waits for the kernel
            reason = " ".join(str(error).split())
            self._failure = CompileError(f"compiling the {self.label} for {self.target.device} failed: {reason}")
            self._failure.__cause__ = error
        finally:
            _building.discard(self)
            self._ready.set()

    def _load(self) -> None:
        """Load the kernel from the cache; compile it first if its files are missing or damaged."""
        folder = warp_kernels.module_folder(self._kernel, self._block)
        if check(folder) is Module.GOOD:
            self._load_module(folder)
            return
        with exclusive(folder):
            status = check(folder)  # another process may have compiled it in the meantime
            if status is not Module.GOOD:
                self._prepare_folder(folder, status)
            self._load_module(folder)

    def _prepare_folder(self, folder: Path, status: Module) -> None:
        """Remove unusable files, and check that the compiled files can be written."""
        if status is Module.DAMAGED:
            logger.warning("the kernel cache is damaged in %s; compiling the %s again", folder, self.label)
        try:
            if status is not Module.ABSENT:
                discard(folder)
        except OSError as error:
            raise warp_kernels.cache_error(folder.parent, error.strerror or str(error)) from error
        size = MIN_FREE_BYTES + FREE_BYTES_PER_SOURCE_BYTE * len(wrap_kernel(self.source, self.target))
        if reason := unwritable(folder.parent, size):
            raise warp_kernels.cache_error(folder.parent, reason)

    def _load_module(self, folder: Path) -> None:
        warp_kernels.load_module(self._kernel, self.target.device, self._block)
        record(folder)

    def _abandon(self) -> None:
        """Mark the kernel as failed in a forked child: only the parent has the thread that compiles it."""
        self._ready = threading.Event()
        self._failure = CompileError(
            f"the {self.label} was being compiled when this process was forked and cannot be used in the child; launch "
            "it once before forking, or start processes with 'spawn'"
        )
        self._ready.set()

    def _define(self) -> Any:
        """Register the kernel with Warp, without compiling it."""
        code = wrap_kernel(self.source, self.target)
        shared = self.source.shared_words * self._block_items
        return warp_kernels.define_kernel(code, self.target, shared, self._block, bool(self.source.functions))


def wait_for_pending_builds() -> None:
    """Wait until every kernel that is being compiled is ready or has failed."""
    with _blocked.waiting():
        for kernel in list(_building):
            if kernel._builder is not threading.current_thread():
                kernel._ready.wait()


def compile_seconds() -> float:
    """Return the seconds this process has spent waiting for kernels to be compiled or loaded.

    Kernels are compiled in background threads: compile time during which no thread waits does not count.
    """
    return _blocked.seconds()


def cache_contents() -> Contents:
    """Return the folder of the kernel cache and the state of the kernels in it.

    Raises:
        CompileError: If the cache cannot be opened.
    """
    warp_kernels.start_warp()
    return contents(warp_kernels.cache_folder(), warp_kernels.KERNEL_PREFIX, MIN_FREE_BYTES)


class _WaitTimer:
    """Measures the time during which at least one thread was waiting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._since = 0.0
        self._before = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time inside the block as waiting."""
        with self._lock:
            self._threads += 1
            if self._threads == 1:
                self._since = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self._threads -= 1
                if self._threads == 0:
                    self._before += time.perf_counter() - self._since

    def seconds(self) -> float:
        """Return the total so far."""
        with self._lock:
            return self._before + (time.perf_counter() - self._since if self._threads else 0.0)


def _new_builders() -> ThreadPoolExecutor:
    """Create the compiler threads; they persist because Warp precompiles its headers once per thread (seconds)."""
    return ThreadPoolExecutor(usable_cores(), thread_name_prefix="ahac build")


_builders = _new_builders()
_building: set[Kernel] = set()
_blocked = _WaitTimer()
_starting = threading.RLock()
"""Held while a build is being started and while the process forks, so that no build starts during a fork."""


def _before_fork() -> None:
    """Wait for all kernels: a forked child has no compiler threads, and inherits locks in their current state."""
    _starting.acquire()
    with _blocked.waiting():
        if any(not kernel._ready.wait(NOTICE_AFTER_SECONDS) for kernel in list(_building)):
            logger.warning("waiting until all kernels are compiled before this process forks")
        wait_for_pending_builds()


def _after_fork() -> None:
    """Replace locks and threads in the child."""
    global _starting, _blocked, _builders
    _starting = threading.RLock()
    _blocked = _WaitTimer()
    _builders = _new_builders()
    for kernel in list(_building):  # not empty if waiting for them was interrupted
        kernel._abandon()
    _building.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=lambda: _starting.release(), after_in_child=_after_fork)
