"""Kernels as Warp modules: define, load, compile and launch them. The only file that imports Warp."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import warp as wp

from ahac.core.errors import CompileError
from ahac.native.cache import unwritable
from ahac.native.codegen import MAX_ARRAYS, Target

__all__ = [
    "KERNEL_PREFIX",
    "cache_error",
    "cache_folder",
    "compile_ahead",
    "define_kernel",
    "launch_cuda",
    "load_module",
    "module_folder",
    "new_command",
    "start_warp",
]

# Warp prints a banner at startup and reports every module it loads; ahac logs compilation itself.
wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)

CPU_FLAGS = (
    "-march=native -mprefer-vector-width=512 -ffp-contract=fast -fno-signed-zeros -fno-vectorize -fno-slp-vectorize "
    "-mllvm=-enable-misched=0"
)
"""Without the machine scheduler: the traced order keeps fewer values alive (docs/performance/design-choices.md)."""
LOOP_FLAGS = "-O1"
"""For kernels with loops over rows: they compile faster and run as fast (docs/performance/compile-times.md)."""
CUDA_OPTIMIZATION = 2
"""Compiles and runs faster than level 3 (docs/performance/design-choices.md)."""

KERNEL_PREFIX = ("wp__cpu_kernel__locals__", "wp__cuda_kernel__locals__")
"""Prefixes of the folders in Warp's cache that hold the kernels defined below."""

NO_DRIVER = b"Could not find or load the NVIDIA CUDA driver"

Address = wp.uint64
Addresses = wp.types.vector(length=MAX_ARRAYS, dtype=wp.uint64)

_defining = threading.Lock()
"""Warp compiles modules in parallel, but starts and registers kernels in one thread at a time."""
_streams: dict[tuple[str, int], wp.Stream] = {}


def define_kernel(code: str, target: Target, shared: int, block: int, has_loops: bool = False) -> Any:
    """Register a kernel with Warp, without compiling it.

    Args:
        code: The kernel's complete C++ code.
        target: Device and precision.
        shared: Numbers of shared memory per CUDA block.
        block: CUDA threads per block.
        has_loops: Whether it contains loops over rows.
    """
    with _defining:
        _init_warp(target.cuda)
        if target.cuda:
            return _cuda_kernel(code, target.float64, shared, block)
        return _cpu_kernel(code, f"{CPU_FLAGS} {LOOP_FLAGS}" if has_loops else CPU_FLAGS)


def load_module(kernel: Any, device: str, block: int) -> None:
    """Load a kernel's module; Warp compiles files that are missing in its cache."""
    try:
        wp.load_module(kernel.module, device=device, block_dim=block)
    except Exception:
        kernel.module.mark_modified()  # otherwise Warp would repeat this error after its cause is fixed
        raise


def compile_ahead(kernel: Any, arch: int, folder: Path) -> None:
    """Compile a kernel for a compute capability into a folder; no GPU is needed."""
    wp.compile_aot_module(kernel.module, arch=arch, module_dir=folder)


def new_command(kernel: Any, target: Target, block: int) -> Any:
    """Return a launch command for a kernel, whose parameters are set before every launch."""
    inputs = [Addresses(), 0.0, 0, 0] if target.cuda else [0]
    return wp.launch(kernel, dim=1, inputs=inputs, record_cmd=True, device=target.device, block_dim=block)


def launch_cuda(
    command: Any, params: tuple[list[int], float, int, int], threads: int, device: str, stream: int
) -> None:
    """Launch a command with the given parameters and number of threads on a CUDA stream that torch owns."""
    if command.bounds.size != threads:
        command.set_dim(threads)
    for i, value in enumerate(params):
        command.set_param_at_index_from_ctype(i, value)
    command.launch(_stream(device, stream))


def start_warp() -> None:
    """Initialize Warp for the CPU, unless it is initialized already.

    Raises:
        CompileError: If the kernel cache cannot be opened.
    """
    with _defining:
        _init_warp(cuda=False)


def cache_folder() -> Path:
    """Return the folder of Warp's kernel cache; Warp must be initialized."""
    return Path(str(wp.config.kernel_cache_dir))


def module_folder(kernel: Any, block: int) -> Path:
    """Return the folder in which Warp caches a kernel's module."""
    return cache_folder() / kernel.module.get_module_identifier(block_dim=block)


def cache_error(folder: Path, reason: str) -> CompileError:
    """Return the error for a kernel cache that cannot be written."""
    return CompileError(
        f"cannot write to the kernel cache {folder}: {reason}; free some space, or set the environment variable "
        "WARP_CACHE_PATH to a writable folder"
    )


def _cpu_kernel(code: str, flags: str) -> Any:
    @wp.func_native(code)
    def body(address: Address) -> None: ...

    @wp.kernel(enable_backward=False, module="unique", module_options={"cpu_compiler_flags": flags})
    def kernel(address: Address) -> None:
        body(address)

    return kernel


def _cuda_kernel(code: str, wide: bool, shared: int, block: int) -> Any:
    """Define a CUDA kernel with `shared` numbers of shared memory.

    A Warp tile reserves the shared memory, which then begins at the start of the block's shared memory. The launch
    bounds limit the registers per thread so that a block always fits on a multiprocessor.
    """
    number = wp.float64 if wide else wp.float32

    @wp.func_native(code)
    def body(address: Addresses, scalar: wp.float64, items: int, count: int, thread: int) -> None: ...  # pyright: ignore[reportInvalidTypeForm]

    options = {"optimization_level": CUDA_OPTIMIZATION}
    if not shared:

        @wp.kernel(enable_backward=False, module="unique", module_options=options)
        def kernel(address: Addresses, scalar: wp.float64, items: int, count: int) -> None:  # pyright: ignore[reportInvalidTypeForm]
            body(address, scalar, items, count, wp.tid())

        return kernel

    @wp.kernel(enable_backward=False, module="unique", module_options=options, launch_bounds=block)
    def divided(address: Addresses, scalar: wp.float64, items: int, count: int) -> None:  # pyright: ignore[reportInvalidTypeForm]
        slots = wp.tile_zeros(shape=shared, dtype=number, storage="shared")  # noqa: F841 - reserves the memory
        body(address, scalar, items, count, wp.tid())

    return divided


def _init_warp(cuda: bool) -> None:
    configured = wp.config.kernel_cache_dir
    try:
        with nullcontext() if cuda else _without_driver_warning():
            wp.init()
    except OSError as error:
        folder = wp.config.kernel_cache_dir
        wp.config.kernel_cache_dir = configured
        if folder is None or unwritable(Path(folder), 0) is None:
            raise
        raise cache_error(Path(folder), error.strerror or str(error)) from error


@contextmanager
def _without_driver_warning() -> Iterator[None]:
    """Suppress Warp's "no CUDA driver" message on CPU-only machines; pass all other output through.

    Warp's C library writes the message directly to the process's standard error, bypassing Python and all settings.
    """
    sys.stderr.flush()
    stderr = os.dup(2)
    try:
        with tempfile.TemporaryFile() as captured:
            os.dup2(captured.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(stderr, 2)
                captured.seek(0)
                os.write(2, b"".join(line for line in captured if NO_DRIVER not in line))
    finally:
        os.close(stderr)


def _stream(device: str, handle: int) -> wp.Stream:
    """Return Warp's view of a CUDA stream that torch owns."""
    key = (device, handle)
    if key not in _streams:
        _streams[key] = wp.Stream(device, cuda_stream=handle)
    return _streams[key]


def _after_fork() -> None:
    """Replace the lock in the child, which may have inherited it locked."""
    global _defining
    _defining = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
