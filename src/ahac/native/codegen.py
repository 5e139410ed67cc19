"""What stands around a kernel's body: the task it works on, and how CPU threads and CUDA threads come to their share.

On the CPU a kernel takes the address of one `Task` that all threads share; each takes the next block of lanes until
none is left (see `threads`). On CUDA a kernel takes the task's members themselves. A warp works on 32 worlds; where
several threads share a world they are in as many warps of one block, each with code of its own, and meet at barriers.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

from ahac.native.source import Source

__all__ = ["MAX_ARRAYS", "WARP", "LaunchArgs", "Target", "wrap_kernel"]

MAX_ARRAYS = 64
"""Most arrays that a kernel takes."""
WARP = 32
"""CUDA threads that run in step."""
LANES = (Path(__file__).parent / "lanes.h").read_text(encoding="utf-8")

CPU_FRAME = """
#define FIRST_PART true
#define FIRST_WORLD block * W
#define SHARED
"""
CUDA_FRAME = """
#define PART part
#define FIRST_PART (part == 0 && block < task.n)
#define FIRST_WORLD (block < task.n ? block : task.n - 1)
#define SHARED extern __shared__ real slots[]
#define SMEM(i) slots[(i) * {worlds} + threadIdx.x / {share} * {warp} + threadIdx.x % {warp}]
#define SYNC asm volatile("bar.sync 1, {threads};" ::: "memory")
"""
FRAME = """
#define REAL {real}
#define WIDE_REAL {wide}
#define LANE_BYTES {lane_bytes}
{lanes}
struct Task {{
    unsigned long long address[{arrays}], yield;
    double h;
    int n, steps, blocks, next, finished;
    static CUDA_CALLABLE void run(const Task& task, [[maybe_unused]] int block, [[maybe_unused]] int part) {{
        [[maybe_unused]] const int n = task.n, e = FIRST_WORLD;
        SHARED;
{body}
    }}
}};
"""
CPU_ENTRY = """
Task& task = *(Task*)address;
for (int b; (b = __atomic_fetch_add(&task.next, 1, __ATOMIC_RELAXED)) < task.blocks;) {
    Task::run(task, b, 0);
    __atomic_fetch_add(&task.finished, 1, __ATOMIC_RELEASE);
}
// Whoever comes here waits for blocks that others still work on: never longer than one block takes.
for (int spins = 0; __atomic_load_n(&task.finished, __ATOMIC_ACQUIRE) < task.blocks; ++spins)
    if (spins > 1000 && task.yield) ((void (*)(void))task.yield)();
"""
CUDA_ENTRY = f"""
const Task task = {{{{{", ".join(f"address[{i}]" for i in range(MAX_ARRAYS))}}}, 0, h, n, steps}};
const int warp = __shfl_sync(~0u, thread / {WARP}, 0);
Task::run(task, warp / PARTS * {WARP} + thread % {WARP}, warp % PARTS);
"""


@dataclass(frozen=True)
class Target:
    """What a kernel is compiled for."""

    device: str
    """Warp's name: "cpu", "cuda:0", ..."""
    float64: bool
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
        return 1 if self.cuda else self.lane_bytes // (8 if self.float64 else 4)


class LaunchArgs(ctypes.Structure):
    """The C++ struct of the same name, as a CPU launch passes it."""

    _fields_ = (
        ("address", ctypes.c_uint64 * MAX_ARRAYS),
        ("yield_", ctypes.c_uint64),
        ("h", ctypes.c_double),
        ("n", ctypes.c_int),
        ("steps", ctypes.c_int),
        ("blocks", ctypes.c_int),
        ("next", ctypes.c_int),
        ("finished", ctypes.c_int),
    )

    @classmethod
    def of(cls, addresses: list[int], h: float, worlds: int, steps: int, blocks: int) -> LaunchArgs:
        """A task of which nothing is done yet."""
        return cls((ctypes.c_uint64 * MAX_ARRAYS)(*addresses), YIELD, h, worlds, steps, blocks, 0, 0)


def wrap_kernel(source: Source, target: Target) -> str:
    """The whole C++ of a kernel."""
    frame = FRAME.format(
        real="double" if target.float64 else "float",
        wide=int(target.float64),
        lane_bytes=target.lane_bytes,
        lanes=LANES,
        arrays=MAX_ARRAYS,
        body=source.body,
    )
    if not target.cuda:
        return CPU_FRAME + frame + CPU_ENTRY
    worlds, share = WARP * source.warps, WARP * source.threads_per_world
    head = CUDA_FRAME.format(warp=WARP, worlds=worlds, share=share, threads=share * source.warps)
    return f"#define PARTS {source.threads_per_world}\n" + head + frame + CUDA_ENTRY


def _yield_address() -> int:
    """The C library's sched_yield, for threads that wait; zero where there is none."""
    try:
        return ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0
    except (OSError, AttributeError, TypeError):
        return 0


YIELD = _yield_address()
