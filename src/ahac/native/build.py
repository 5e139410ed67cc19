"""From C++ to running kernels: Warp compiles, keeps the result on disk, and launches. The only file that knows Warp."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import warp as wp

from ahac.native.frame import MAX_ARRAYS, WARP, Target, Task, framed
from ahac.native.source import Source
from ahac.native.threads import share

__all__ = ["Kernel", "compile_seconds", "settle"]

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

NOTICE_AFTER = 0.5
"""Seconds after which a build is worth a word: loading a kernel that was compiled before takes a tenth of that."""
WORTH_SHARING = 5e5
"""Operations on lanes per thread (about 0.2 ms) below which waking one costs more than it brings."""

NO_DRIVER = b"Could not find or load the NVIDIA CUDA driver"

Address = wp.uint64
Addresses = wp.types.vector(length=MAX_ARRAYS, dtype=wp.uint64)


class Kernel:
    """A compiled kernel; compiling starts with the first `prepare` or `launch`, in a thread of its own."""

    def __init__(self, source: Source, target: Target, label: str) -> None:
        self.source, self.target = source, target
        self.label = f"{source.name} of {label!r}"
        self._worlds = WARP * source.warps
        self._block = self._worlds * source.parts
        self._local = threading.local()
        self._starting = threading.Lock()
        self._ready = threading.Event()
        self._builder: threading.Thread | None = None
        self._failure: Exception | None = None
        self._kernel: Any = None

    def prepare(self) -> None:
        """Start compiling, and return at once."""
        with self._starting:
            if self._builder is None:
                self._builder = threading.Thread(target=self._build, name=f"ahac build {self.label}")
                _building.add(self)
                self._builder.start()

    def launch(
        self, addresses: Mapping[str, int], worlds: int, steps: int, h: float, threads: int = 1, stream: int = 0,
        blocks: int | None = None,
    ) -> None:  # fmt: skip
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
            threads = min(threads, int(blocks * max(steps, 1) * self.source.operations / WORTH_SHARING))
        share(self._work, Task.of(slots, h, worlds, steps, blocks), min(threads, blocks) - 1)

    def _work(self, task: Task) -> None:
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
            command = self._local.command = wp.launch(
                self._kernel, dim=1, inputs=inputs, device=self.target.device, block_dim=self._block, record_cmd=True
            )
        return command

    def _wait(self) -> None:
        if self._ready.is_set() and self._failure is None:
            return
        self.prepare()
        if not self._ready.wait(NOTICE_AFTER):
            logger.warning("compiling the %s for %s; later runs find it on disk", self.label, self.target.device)
            self._ready.wait()
        if self._failure is not None:
            raise RuntimeError(f"compiling the {self.label} for {self.target.device} failed") from self._failure

    def compile_for(self, arch: int, folder: Path) -> None:
        """Compile for a GPU that need not be here, by its compute capability, into a folder."""
        wp.compile_aot_module(self._defined().module, arch=arch, module_dir=folder)

    def _build(self) -> None:
        try:
            self._kernel = self._defined()
            wp.load_module(self._kernel.module, device=self.target.device, block_dim=self._block)
        except Exception as error:  # whatever it is, it is raised again in the thread that waits for the kernel
            self._failure = error
        finally:
            _building.discard(self)
            self._ready.set()

    def _defined(self) -> Any:
        """Known to Warp, and not compiled yet."""
        code, shared = framed(self.source, self.target), self.source.slots * self._worlds
        with _creating:
            with nullcontext() if self.target.cuda else _without_driver_warning():
                wp.init()
            if self.target.cuda:
                return _cuda_kernel(code, self.target.wide, shared, self._block)
            return _cpu_kernel(code)


def compile_seconds() -> float:
    """Seconds that this process has waited for kernels."""
    return 0.0


def settle() -> None:
    """Wait until all that is being compiled is there, or has failed."""
    for kernel in list(_building):
        kernel._ready.wait()


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


_building: set[Kernel] = set()
_creating = threading.Lock()
"""Warp compiles modules side by side, but starts and registers kernels for one thread at a time."""
_streams: dict[tuple[str, int], wp.Stream] = {}


def _stream(device: str, handle: int) -> wp.Stream:
    """Warp's view of a CUDA stream that torch owns."""
    key = (device, handle)
    if key not in _streams:
        _streams[key] = wp.Stream(device, cuda_stream=handle)
    return _streams[key]
