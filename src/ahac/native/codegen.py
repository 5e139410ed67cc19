"""C++ around a kernel body: launch arguments, and the code that assigns blocks to CPU and CUDA threads.

A CPU kernel receives the address of one `LaunchArgs` shared by all threads; each thread takes the next block of lanes
until none is left (see `threads`). A CUDA kernel receives the fields as separate parameters. One warp processes 32
items. If several threads share an item, they belong to different warps of the same block; each warp runs its own code,
and they synchronize at barriers.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

from ahac.native.source import Source

__all__ = ["MAX_ARRAYS", "WARP", "LaunchArgs", "Target", "wrap_kernel"]

MAX_ARRAYS = 64
"""Maximum number of array arguments of a kernel."""
WARP = 32
"""CUDA threads per warp."""
LANES = (Path(__file__).parent / "lanes.h").read_text(encoding="utf-8")

CPU_FRAME = """
#define FIRST_PART true
#define FIRST_ITEM block * W
#define SHARED
#define INLINE
"""
CUDA_FRAME = """
#define PART part
#define FIRST_PART (part == 0 && block < args.items)
#define FIRST_ITEM (block < args.items ? block : args.items - 1)
#define SHARED extern __shared__ real slots[]
#define INLINE __forceinline__  // else every thread copies the arguments to local memory
#define SMEM(i) slots[(i) * {items} + threadIdx.x / {share} * {warp} + threadIdx.x % {warp}]
#define SYNC asm volatile("bar.sync 1, {threads};" ::: "memory")
"""
FRAME = """
#define REAL {real}
#define WIDE_REAL {wide}
#define LANE_BYTES {lane_bytes}
{lanes}
struct LaunchArgs {{
    unsigned long long address[{arrays}], yield;
    double scalar;
    int items, count, blocks, next, finished;{functions}
    static INLINE CUDA_CALLABLE void run(
        const LaunchArgs& args, [[maybe_unused]] int block, [[maybe_unused]] int part
    ) {{
        [[maybe_unused]] const int n = args.items, e = FIRST_ITEM;
        SHARED;
{body}
    }}
}};
"""
CPU_ENTRY = """
LaunchArgs& args = *(LaunchArgs*)address;
for (int b; (b = __atomic_fetch_add(&args.next, 1, __ATOMIC_RELAXED)) < args.blocks;) {
    LaunchArgs::run(args, b, 0);
    __atomic_fetch_add(&args.finished, 1, __ATOMIC_RELEASE);
}
// Wait for blocks that other threads are still processing: at most the time of one block.
for (int spins = 0; __atomic_load_n(&args.finished, __ATOMIC_ACQUIRE) < args.blocks; ++spins)
    if (spins > 1000 && args.yield) ((void (*)(void))args.yield)();
"""
CUDA_ENTRY = f"""
const LaunchArgs args = {{{{{", ".join(f"address[{i}]" for i in range(MAX_ARRAYS))}}}, 0, scalar, items, count}};
const int warp = __shfl_sync(~0u, thread / {WARP}, 0);
LaunchArgs::run(args, warp / PARTS * {WARP} + thread % {WARP}, warp % PARTS);
"""


@dataclass(frozen=True)
class Target:
    """Device, precision and SIMD width that a kernel is compiled for."""

    device: str
    """Warp's device name: "cpu", "cuda:0", ..."""
    float64: bool
    """Use float64 instead of float32."""
    lane_bytes: int
    """Width of the CPU's SIMD registers, in bytes."""

    @property
    def cuda(self) -> bool:
        """Whether kernels run on a GPU."""
        return self.device != "cpu"

    @property
    def lanes(self) -> int:
        """Items per block: the number of SIMD lanes on the CPU, one on CUDA."""
        return 1 if self.cuda else self.lane_bytes // (8 if self.float64 else 4)


class LaunchArgs(ctypes.Structure):
    """Arguments of one CPU launch; mirrors the C++ struct of the same name.

    Kernel bodies read `args.count` and `args.scalar` under names of their own, e.g. `const int steps = args.count;`.
    """

    _fields_ = (
        ("address", ctypes.c_uint64 * MAX_ARRAYS),
        ("yield_", ctypes.c_uint64),
        ("scalar", ctypes.c_double),
        ("items", ctypes.c_int),
        ("count", ctypes.c_int),
        ("blocks", ctypes.c_int),
        ("next", ctypes.c_int),
        ("finished", ctypes.c_int),
    )

    @classmethod
    def of(cls, addresses: list[int], items: int, count: int, scalar: float, blocks: int) -> LaunchArgs:
        """Return the arguments of a launch in which no block has been processed yet."""
        return cls((ctypes.c_uint64 * MAX_ARRAYS)(*addresses), YIELD, scalar, items, count, blocks, 0, 0)


def wrap_kernel(source: Source, target: Target) -> str:
    """Return the complete C++ code of a kernel."""
    frame = FRAME.format(
        real="double" if target.float64 else "float",
        wide=int(target.float64),
        lane_bytes=target.lane_bytes,
        lanes=LANES,
        arrays=MAX_ARRAYS,
        functions=source.functions,
        body=source.body,
    )
    if not target.cuda:
        return CPU_FRAME + frame + CPU_ENTRY
    items = WARP * source.warps
    share = WARP * source.threads_per_world
    head = CUDA_FRAME.format(warp=WARP, items=items, share=share, threads=share * source.warps)
    return f"#define PARTS {source.threads_per_world}\n" + head + frame + CUDA_ENTRY


def _yield_address() -> int:
    """Return the address of the C library's sched_yield, or 0 if it has none."""
    try:
        return ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0
    except (OSError, AttributeError, TypeError):
        return 0


YIELD = _yield_address()
"""Called by CPU threads that wait for other threads; see `CPU_ENTRY`."""
