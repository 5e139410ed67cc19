"""From C++ to running kernels: Warp compiles, keeps the result on disk, and launches. The only file that knows Warp."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import warp as wp

from ahac.core.errors import CompileError
from ahac.core.hardware import usable_cores
from ahac.native.cache import Contents, Module, check, contents, discard, exclusive, record, unwritable
from ahac.native.codegen import MAX_ARRAYS, WARP, LaunchArgs, Target, wrap_kernel
from ahac.native.source import Source
from ahac.native.threads import run_with_helpers

__all__ = ["Kernel", "cache_contents", "compile_seconds", "wait_for_pending_builds"]

logger = logging.getLogger("ahac")

# Warp greets at start and reports every module it loads; we say what we compile ourselves.
wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)

CPU_FLAGS = (
    "-march=native -mprefer-vector-width=512 -ffp-contract=fast -fno-signed-zeros -fno-vectorize -fno-slp-vectorize "
    "-mllvm=-enable-misched=0"
)
"""The graph's own order keeps fewer values alive than the machine scheduler's (docs/performance.md)."""
CUDA_OPTIMIZATION = 2
"""Faster than level 3, both to compile and to run (docs/performance.md)."""

NOTICE_AFTER_SECONDS = 0.5
"""Seconds after which a build is worth a word: loading a kernel that was compiled before takes a tenth of that."""
MIN_WORK_TO_SHARE = 5e5
"""Operations on lanes per thread (about 0.2 ms) below which waking one costs more than it brings."""

KERNEL_PREFIX = ("wp__cpu_kernel__locals__", "wp__cuda_kernel__locals__")
"""How Warp names the folders of the kernels defined below."""
MIN_FREE_BYTES = 2**20
"""Bytes that must be free in the kernel cache, plus `FREE_BYTES_PER_SOURCE_BYTE` for each byte of source: files are smaller."""
FREE_BYTES_PER_SOURCE_BYTE = 8

NO_DRIVER = b"Could not find or load the NVIDIA CUDA driver"

Address = wp.uint64
Addresses = wp.types.vector(length=MAX_ARRAYS, dtype=wp.uint64)


class Kernel:
    """A compiled kernel; compiling starts with the first `prepare` or `launch`, in another thread."""

    def __init__(self, source: Source, target: Target, label: str) -> None:
        self.source = source
        self.target = target
        self.label = f"{source.name} of {label!r}"
        self._worlds = WARP * source.warps
        self._block = self._worlds * source.threads_per_world if target.cuda else 1
        self._local = threading.local()
        self._started = False
        self._ready = threading.Event()
        self._builder: threading.Thread | None = None
        self._failure: Exception | None = None
        self._kernel: Any = None

    def prepare(self) -> None:
        """Start compiling, and return at once."""
        with _starting:
            if not self._started:
                self._started = True
                _building.add(self)
                _builders.submit(self._build)

    def launch(
        self,
        addresses: Mapping[str, int],
        worlds: int,
        steps: int,
        h: float,
        threads: int = 1,
        stream: int = 0,
        blocks: int | None = None,
    ) -> None:
        """Run for `worlds` worlds on arrays at the given addresses; arrays left out count as not given.

        The work is in blocks: of as many worlds as there are lanes, or as warps take; or so many as are asked for.
        """
        self._wait()
        slots = [addresses.get(name, 0) for name in self.source.arrays]
        if self.target.cuda:
            work = (slots + [0] * (MAX_ARRAYS - len(slots)), h, worlds, steps)
            self._launch_cuda(work, -(-worlds // self._worlds) if blocks is None else blocks, stream)
            return
        if blocks is None:
            blocks = -(-worlds // self.target.lanes)
            threads = min(threads, int(blocks * max(steps, 1) * self.source.operations / MIN_WORK_TO_SHARE))
        run_with_helpers(self._work, LaunchArgs.of(slots, h, worlds, steps, blocks), min(threads, blocks) - 1)

    def _work(self, task: LaunchArgs) -> None:
        """One thread's share of a CPU launch."""
        command = self._command()
        command.set_param_at_index_from_ctype(0, ctypes.addressof(task))
        command.launch()

    def _launch_cuda(self, work: tuple[list[int], float, int, int], blocks: int, stream: int) -> None:
        command, threads = self._command(), blocks * self._block
        if command.bounds.size != threads:
            command.set_dim(threads)
        for i, value in enumerate(work):
            command.set_param_at_index_from_ctype(i, value)
        command.launch(_stream(self.target.device, stream))

    def _command(self) -> Any:
        """This thread's own launch record: parameters are written into it before every launch."""
        command = getattr(self._local, "command", None)
        if command is None:
            inputs = [Addresses(), 0.0, 0, 0] if self.target.cuda else [0]
            where = {"device": self.target.device, "block_dim": self._block}
            with _starting:  # no fork while Warp holds its locks
                command = wp.launch(self._kernel, dim=1, inputs=inputs, record_cmd=True, **where)
            self._local.command = command
        return command

    def _wait(self) -> None:
        if self._ready.is_set() and self._failure is None:
            return
        self.prepare()
        with _blocked.waiting():
            if not self._ready.wait(NOTICE_AFTER_SECONDS):
                logger.warning("compiling the %s for %s; later runs find it on disk", self.label, self.target.device)
                self._ready.wait()
        if (failure := self._failure) is not None:
            raise CompileError(str(failure)) from failure.__cause__

    def compile_for(self, arch: int, folder: Path) -> None:
        """Compile for a GPU that need not be here, by its compute capability, into a folder."""
        wp.compile_aot_module(self._defined().module, arch=arch, module_dir=folder)

    def _build(self) -> None:
        self._builder = threading.current_thread()
        try:
            self._kernel = self._defined()
            self._load()
        except CompileError as error:
            self._failure = error
        except Exception as error:  # whatever it is, it is raised again in the thread that waits for the kernel
            reason = " ".join(str(error).split())
            self._failure = CompileError(f"compiling the {self.label} for {self.target.device} failed: {reason}")
            self._failure.__cause__ = error
        finally:
            _building.discard(self)
            self._ready.set()

    def _load(self) -> None:
        """Load the kernel from the cache; compile it first if it is not there, or not as it was written."""
        folder = _cache() / self._kernel.module.get_module_identifier(block_dim=self._block)
        if check(folder) is Module.GOOD:
            self._load_module(folder)
            return
        with exclusive(folder):
            found = check(folder)  # another process may have compiled it meanwhile
            if found is not Module.GOOD:
                self._make_room(folder, found)
            self._load_module(folder)

    def _make_room(self, folder: Path, found: Module) -> None:
        """Remove what cannot be used, and see that the result of compiling can be written."""
        if found is Module.DAMAGED:
            logger.warning("the kernel cache is damaged in %s; compiling the %s again", folder, self.label)
        try:
            if found is not Module.ABSENT:
                discard(folder)
        except OSError as error:
            raise _cache_error(folder.parent, error.strerror or str(error)) from error
        if reason := unwritable(
            folder.parent, MIN_FREE_BYTES + FREE_BYTES_PER_SOURCE_BYTE * len(wrap_kernel(self.source, self.target))
        ):
            raise _cache_error(folder.parent, reason)

    def _load_module(self, folder: Path) -> None:
        """Have Warp load the module, which compiles what is missing in the cache."""
        module = self._kernel.module
        try:
            wp.load_module(module, device=self.target.device, block_dim=self._block)
        except Exception:
            module.mark_modified()  # else Warp would repeat this error when the cause is gone
            raise
        record(folder)

    def _forget(self) -> None:
        """In a forked process: what builds this kernel runs in the parent alone."""
        self._ready = threading.Event()
        self._failure = CompileError(
            f"the {self.label} was being compiled when this process was forked, and cannot be used in it; run it once "
            "before forking, or start processes by 'spawn'"
        )
        self._ready.set()

    def _defined(self) -> Any:
        """Known to Warp, and not compiled yet."""
        code = wrap_kernel(self.source, self.target)
        shared = self.source.shared_words * self._worlds
        with _creating:
            _start(self.target.cuda)
            if self.target.cuda:
                return _cuda_kernel(code, self.target.float64, shared, self._block)
            return _cpu_kernel(code)


def wait_for_pending_builds() -> None:
    """Wait until all that is being compiled is there, or has failed."""
    with _blocked.waiting():
        for kernel in list(_building):
            if kernel._builder is not threading.current_thread():
                kernel._ready.wait()


def compile_seconds() -> float:
    """Seconds that this process has spent so far in waiting for kernels to be compiled or loaded.

    Kernels are compiled in other threads: time in which nobody had to wait for them does not count.
    """
    return _blocked.seconds()


def cache_contents() -> Contents:
    """Where compiled kernels are kept, and what is there.

    Raises:
        CompileError: If the cache cannot be opened.
    """
    with _creating:
        _start(cuda=False)
    return contents(_cache(), KERNEL_PREFIX, MIN_FREE_BYTES)


def _cpu_kernel(code: str) -> Any:
    @wp.func_native(code)
    def body(address: Address) -> None: ...

    @wp.kernel(enable_backward=False, module="unique", module_options={"cpu_compiler_flags": CPU_FLAGS})
    def kernel(address: Address) -> None:
        body(address)

    return kernel


def _cuda_kernel(code: str, wide: bool, shared: int, block: int) -> Any:
    """With so many numbers of shared memory, from the start of what a block has: Warp gives it to a tile there.

    No thread may take so many registers that its block does not find room.
    """
    number = wp.float64 if wide else wp.float32

    @wp.func_native(code)
    def body(address: Addresses, h: wp.float64, n: int, steps: int, thread: int) -> None: ...  # pyright: ignore[reportInvalidTypeForm]

    options = {"optimization_level": CUDA_OPTIMIZATION}
    if not shared:

        @wp.kernel(enable_backward=False, module="unique", module_options=options)
        def kernel(address: Addresses, h: wp.float64, n: int, steps: int) -> None:  # pyright: ignore[reportInvalidTypeForm]
            body(address, h, n, steps, wp.tid())

        return kernel

    @wp.kernel(enable_backward=False, module="unique", module_options=options, launch_bounds=block)
    def divided(address: Addresses, h: wp.float64, n: int, steps: int) -> None:  # pyright: ignore[reportInvalidTypeForm]
        slots = wp.tile_zeros(shape=shared, dtype=number, storage="shared")  # noqa: F841 - it is there
        body(address, h, n, steps, wp.tid())

    return divided


def _start(cuda: bool) -> None:
    """Start Warp, unless it is running."""
    configured = wp.config.kernel_cache_dir
    try:
        with nullcontext() if cuda else _without_driver_warning():
            wp.init()
    except OSError as error:
        folder = wp.config.kernel_cache_dir
        wp.config.kernel_cache_dir = configured
        if folder is None or unwritable(Path(folder), 0) is None:
            raise
        raise _cache_error(Path(folder), error.strerror or str(error)) from error


def _cache() -> Path:
    """Where Warp keeps compiled kernels, once it is started."""
    return Path(str(wp.config.kernel_cache_dir))


def _cache_error(folder: Path, reason: str) -> CompileError:
    return CompileError(
        f"cannot write to the kernel cache {folder}: {reason}; free some space, or set the environment variable "
        "WARP_CACHE_PATH to a writable folder"
    )


class _Blocked:
    """Measures how long at least one thread has been waiting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._since = 0.0
        self._before = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around what is measured."""
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
        """Up to now."""
        with self._lock:
            return self._before + (time.perf_counter() - self._since if self._threads else 0.0)


@contextmanager
def _without_driver_warning() -> Iterator[None]:
    """Keep Warp's C library from telling who computes on the CPU that there is no CUDA driver; let all else through.

    It writes to the process's standard error itself, past Python and past any setting.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with tempfile.TemporaryFile() as said:
            os.dup2(said.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(kept, 2)
                said.seek(0)
                os.write(2, b"".join(line for line in said if NO_DRIVER not in line))
    finally:
        os.close(kept)


def _new_builders() -> ThreadPoolExecutor:
    """Threads that compile, and stay: Warp precompiles its headers once per thread, which takes seconds."""
    return ThreadPoolExecutor(usable_cores(), thread_name_prefix="ahac build")


_builders = _new_builders()
_building: set[Kernel] = set()
_blocked = _Blocked()
_starting = threading.RLock()
"""Held while a build is started, and while the process forks: none is started in between."""
_creating = threading.Lock()
"""Warp compiles modules side by side, but starts and registers kernels for one thread at a time."""
_streams: dict[tuple[str, int], wp.Stream] = {}


def _stream(device: str, handle: int) -> wp.Stream:
    """Warp's view of a CUDA stream that torch owns."""
    key = (device, handle)
    if key not in _streams:
        _streams[key] = wp.Stream(device, cuda_stream=handle)
    return _streams[key]


def _before_fork() -> None:
    """Let all kernels be ready: a forked child has none of the threads that compile, and inherits locks as they are."""
    _starting.acquire()
    with _blocked.waiting():
        if any(not kernel._ready.wait(NOTICE_AFTER_SECONDS) for kernel in list(_building)):
            logger.warning("waiting until all kernels are compiled before this process forks")
        wait_for_pending_builds()


def _after_fork() -> None:
    """In the child."""
    global _starting, _creating, _blocked, _builders
    _starting = threading.RLock()
    _creating = threading.Lock()
    _blocked = _Blocked()
    _builders = _new_builders()
    for kernel in list(_building):  # there are some if waiting for them was interrupted
        kernel._forget()
    _building.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=lambda: _starting.release(), after_in_child=_after_fork)
