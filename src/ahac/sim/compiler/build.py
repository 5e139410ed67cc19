"""From C++ to running kernels: Warp compiles, keeps the result on disk, and launches. The only file that knows Warp.

On the CPU a kernel takes the address of one `Task` that all threads share: each takes the next block of lanes until none
is left (see `threads`). On CUDA a kernel takes the task's members themselves, and every thread is one world.
"""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import warp as wp

from ahac.sim.compiler.emit import LANES, Source
from ahac.sim.compiler.threads import share

__all__ = ["MAX_ARRAYS", "Kernel", "Target"]

logger = logging.getLogger("ahac")

# Warp greets at start and reports every module it loads; we say what we compile ourselves.
wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)

MAX_ARRAYS = 16
CPU_FLAGS = (
    "-march=native -mprefer-vector-width=512 -fno-signed-zeros -fno-vectorize -fno-slp-vectorize "
    "-mllvm=-enable-misched=0"
)
"""The graph's own order keeps fewer values alive than the machine scheduler's: without it the adjoint is 6 % faster."""
CUDA_BLOCK = 32
NOTICE_AFTER = 0.5
"""Seconds after which a build is worth a word: loading a kernel that was compiled before takes a tenth of that."""

WORTH_SHARING = 3e5
"""Operations on lanes (about 0.1 ms) below which waking another thread costs more than it brings."""

FRAME = """
#define REAL {real}
#define WIDE_REAL {wide}
#define LANE_BYTES {lane_bytes}
{lanes}
struct Task {{
    unsigned long long address[{arrays}], yield;
    double h;
    int n, steps, blocks, next, finished;
    static CUDA_CALLABLE void run(const Task& task, int block) {{
        const int n = task.n, e = block * W;
{body}
    }}
}};
"""
CPU_ENTRY = """
Task& task = *(Task*)address;
for (int b; (b = __atomic_fetch_add(&task.next, 1, __ATOMIC_RELAXED)) < task.blocks;) {
    Task::run(task, b);
    __atomic_fetch_add(&task.finished, 1, __ATOMIC_RELEASE);
}
// Whoever comes here waits for blocks that others still work on; never longer than one block takes.
for (int spins = 0; __atomic_load_n(&task.finished, __ATOMIC_ACQUIRE) < task.blocks; ++spins)
    if (spins > 1000 && task.yield) ((void (*)(void))task.yield)();
"""
CUDA_ENTRY = "const Task task = {{" + ", ".join(f"p{i}" for i in range(MAX_ARRAYS)) + "}, 0, h, n, steps};\n"
CUDA_ENTRY += "Task::run(task, world);"

U = wp.uint64


@dataclass(frozen=True)
class Target:
    """What a kernel is compiled for."""

    device: str
    """Warp's name: "cpu", "cuda:0", ..."""
    wide: bool
    """float64 instead of float32."""
    lane_bytes: int
    """Width of the CPU's SIMD registers."""

    @property
    def cuda(self) -> bool:
        """Whether kernels run on a GPU."""
        return self.device != "cpu"

    @property
    def lanes(self) -> int:
        """Worlds per block: SIMD lanes on the CPU, one on CUDA."""
        return 1 if self.cuda else self.lane_bytes // (8 if self.wide else 4)


class _Task(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_uint64 * MAX_ARRAYS), ("yield_", ctypes.c_uint64), ("h", ctypes.c_double),
        ("n", ctypes.c_int), ("steps", ctypes.c_int), ("blocks", ctypes.c_int), ("next", ctypes.c_int),
        ("finished", ctypes.c_int),
    ]  # fmt: skip


class Kernel:
    """A compiled kernel; compiling starts with the first `prepare` or `launch`, in a thread of its own."""

    def __init__(self, source: Source, target: Target, label: str) -> None:
        self.source, self.target = source, target
        self.label = f"{source.name} of {label!r}"
        self._local = threading.local()
        self._ready = threading.Event()
        self._builder: threading.Thread | None = None
        self._failure: Exception | None = None
        self._kernel: Any = None

    def prepare(self) -> None:
        """Start compiling, and return at once."""
        if self._builder is None:
            self._builder = threading.Thread(target=self._build, name=f"ahac build {self.label}")
            self._builder.start()

    def launch(
        self, addresses: Mapping[str, int], worlds: int, steps: int, h: float, threads: int = 1, stream: int = 0
    ) -> None:
        """Run for `worlds` worlds on arrays at the given addresses; arrays left out count as not given."""
        self._wait()
        slots = [addresses.get(name, 0) for name in self.source.arrays]
        slots += [0] * (MAX_ARRAYS - len(slots))
        if self.target.cuda:
            self._launch_cuda([*slots, h, worlds, steps], worlds, stream)
            return
        blocks = -(-worlds // self.target.lanes)
        task = _Task((ctypes.c_uint64 * MAX_ARRAYS)(*slots), YIELD, h, worlds, steps, blocks, 0, 0)
        worth = blocks * max(steps, 1) * self.source.operations > WORTH_SHARING
        share(self._work, task, min(threads, blocks) - 1 if worth else 0)

    def _work(self, task: _Task) -> None:
        """One thread's share of a CPU launch."""
        command = self._command()
        command.set_param_at_index(0, ctypes.addressof(task))
        command.launch()

    def _launch_cuda(self, parameters: list[float], worlds: int, stream: int) -> None:
        command = self._command()
        command.set_dim(worlds)
        for i, value in enumerate(parameters):
            command.set_param_at_index(i, value)
        command.launch(_stream(self.target.device, stream))

    def _command(self) -> Any:
        """This thread's own launch record: parameters are written into it before every launch."""
        command = getattr(self._local, "command", None)
        if command is None:
            inputs = [0] * MAX_ARRAYS + [0.0, 0, 0] if self.target.cuda else [0]
            command = self._local.command = wp.launch(
                self._kernel, dim=1, inputs=inputs, device=self.target.device, block_dim=CUDA_BLOCK, record_cmd=True
            )
        return command

    def _wait(self) -> None:
        self.prepare()
        if not self._ready.wait(NOTICE_AFTER):
            size = f"{self.source.operations / 1000:.1f} thousand operations"
            logger.warning(
                "compiling the %s for %s (%s); later runs find it on disk", self.label, self.target.device, size
            )
            self._ready.wait()
        if self._failure is not None:
            raise RuntimeError(f"compiling the {self.label} for {self.target.device} failed") from self._failure

    def _build(self) -> None:
        try:
            self._kernel = _make_kernel(self.source, self.target)
            wp.load_module(self._kernel.module, device=self.target.device, block_dim=CUDA_BLOCK)
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for the kernel
            self._failure = error
        finally:
            self._ready.set()


def _make_kernel(source: Source, target: Target) -> Any:
    frame = FRAME.format(
        real="double" if target.wide else "float", wide=int(target.wide), lane_bytes=target.lane_bytes, lanes=LANES,
        arrays=MAX_ARRAYS, body=source.body,
    )  # fmt: skip
    return _cuda_kernel(frame + CUDA_ENTRY) if target.cuda else _cpu_kernel(frame + CPU_ENTRY)


def _cpu_kernel(code: str) -> Any:
    @wp.func_native(code)
    def body(address: U): ...

    @wp.kernel(enable_backward=False, module="unique", module_options={"cpu_compiler_flags": CPU_FLAGS})
    def kernel(address: U):
        body(address)

    return kernel


def _cuda_kernel(code: str) -> Any:
    @wp.func_native(code)
    def body(
        p0: U, p1: U, p2: U, p3: U, p4: U, p5: U, p6: U, p7: U, p8: U, p9: U, p10: U, p11: U, p12: U, p13: U, p14: U, p15: U,
        h: wp.float64, n: int, steps: int, world: int,
    ): ...  # fmt: skip

    @wp.kernel(enable_backward=False, module="unique")
    def kernel(
        p0: U, p1: U, p2: U, p3: U, p4: U, p5: U, p6: U, p7: U, p8: U, p9: U, p10: U, p11: U, p12: U, p13: U, p14: U, p15: U,
        h: wp.float64, n: int, steps: int,
    ):  # fmt: skip
        body(p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, h, n, steps, wp.tid())

    return kernel


def _stream(device: str, handle: int) -> wp.Stream:
    """Warp's view of a CUDA stream that somebody else owns."""
    key = (device, handle)
    if key not in _STREAMS:
        _STREAMS[key] = wp.Stream(device, cuda_stream=handle)
    return _STREAMS[key]


def _yield_address() -> int:
    """The C library's sched_yield, for threads that wait; zero where there is none."""
    try:
        return ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0
    except (OSError, AttributeError, TypeError):
        return 0


_STREAMS: dict[tuple[str, int], wp.Stream] = {}
YIELD = _yield_address()
