"""CUDA kernels on the CPU: one block after the other, a thread for each of its threads. For machines without a GPU.

It is slow, and exact about what a kernel computes and where its threads meet. What it needs is a C++ compiler.
"""

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ahac.native.codegen import MAX_ARRAYS, WARP, Target, wrap_kernel
from ahac.native.source import Source

COMPILER = shutil.which("g++")
FRAME = r"""
#include <barrier>
#include <bit>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>
#define CUDA_CALLABLE
#define WARP_MMA(c, a, b) multiply_by_tensor_core(c, a, b)
#define SYNC everybody->arrive_and_wait()
typedef float real;
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
static float __ldg(const float* x) { return *x; }
static float2 __ldg(const float2* x) { return *x; }
static unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
static float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
struct Index { int x; };
static thread_local Index threadIdx;
static std::unique_ptr<std::barrier<>> everybody;
static std::vector<std::unique_ptr<std::barrier<>>> warps;
static float told[1024];
alignas(16) static float slots[NUMBERS];
static float __shfl_xor_sync(unsigned, float x, int apart) {
    const int t = threadIdx.x;
    told[t] = x;
    warps[t / 32]->arrive_and_wait();
    const float y = told[(t & ~31) | ((t & 31) ^ apart)];
    warps[t / 32]->arrive_and_wait();
    return y;
}
static float left[32][16][8], right[32][8][8];  // the matrices of each warp
static float as_tf32(unsigned bits) { return __uint_as_float(bits & ~0x1fffu); }
static void multiply_by_tensor_core(float* c, const unsigned* a, const unsigned* b) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane / 4, column = lane % 4;
    for (int i = 0; i < 4; ++i) left[warp][row + 8 * (i % 2)][column + 4 * (i / 2)] = as_tf32(a[i]);
    for (int i = 0; i < 2; ++i) right[warp][column + 4 * i][row] = as_tf32(b[i]);
    warps[warp]->arrive_and_wait();
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 8; ++k) c[i] += left[warp][row + 8 * (i / 2)][k] * right[warp][k][2 * column + i % 2];
    warps[warp]->arrive_and_wait();
}
struct LaunchArgs { unsigned long long address[64]; int items, count; };
static void run(const LaunchArgs& args, int block) {
    const int n = args.items;
BODY
}
extern "C" void launch(const LaunchArgs* args, int blocks, int warps_per_block) {
    for (int b = 0; b < blocks; ++b) {
        for (float& x : slots) x = NAN;
        everybody = std::make_unique<std::barrier<>>(32 * warps_per_block);
        warps.clear();
        for (int w = 0; w < warps_per_block; ++w) warps.push_back(std::make_unique<std::barrier<>>(32));
        std::vector<std::thread> threads;
        for (int t = 0; t < 32 * warps_per_block; ++t)
            threads.emplace_back([=] { threadIdx.x = t; run(*args, b * 32 + t % 32); });
        for (std::thread& thread : threads) thread.join();
    }
}
"""

SHARED_WORLDS = r"""
#include <barrier>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>
#define __CUDACC__
#define __device__
#define __constant__
#define __shared__
#define __forceinline__ inline
#define CUDA_CALLABLE
double slots[NUMBERS];
struct Index { int x; };
static thread_local Index threadIdx;
static std::unique_ptr<std::barrier<>> everybody;
static int __shfl_sync(unsigned, int x, int) { return x; }
static void run(const unsigned long long* address, double scalar, int items, int count, int thread) {
KERNEL
}
extern "C" void launch(const unsigned long long* address, double scalar, int items, int count, int size) {
    everybody = std::make_unique<std::barrier<>>(size);
    for (double& x : slots) x = NAN;
    std::vector<std::thread> threads;
    for (int t = 0; t < size; ++t)
        threads.emplace_back([=] { threadIdx.x = t; run(address, scalar, items, count, t); });
    for (std::thread& thread : threads) thread.join();
}
"""


class LaunchArgs(ctypes.Structure):
    """Mirrors the fields of `ahac.native.codegen.LaunchArgs` that kernel bodies read."""

    _fields_ = (("address", ctypes.c_uint64 * MAX_ARRAYS), ("items", ctypes.c_int), ("count", ctypes.c_int))


class EmulatedKernel:
    """Stands for `ahac.native.build.Kernel`."""

    def __init__(self, source: Source, target: Target, label: str) -> None:
        self.source = source
        self._library = _compile(FRAME.replace("NUMBERS", str(source.shared_words * WARP)).replace("BODY", source.body))

    def prepare(self) -> None:
        """It is compiled already."""

    def launch(self, addresses: Mapping[str, int], *, items: int, stream: int, blocks: int, count: int = 0) -> None:
        slots = [addresses.get(name, 0) for name in self.source.arrays]
        args = LaunchArgs((ctypes.c_uint64 * MAX_ARRAYS)(*slots), items, count)
        self._library.launch(ctypes.byref(args), blocks, self.source.threads_per_world)


def emulate(module: object, patch: pytest.MonkeyPatch) -> None:
    """Let the kernels of a module run here."""
    if COMPILER is None:
        pytest.skip("needs g++")
    patch.setattr(module, "Kernel", EmulatedKernel)
    patch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))


def run_shared_worlds(source: Source, arrays: Mapping[str, np.ndarray], worlds: int, steps: int) -> None:
    """Run a kernel of the simulator whose worlds, at most 32, are each shared by several threads, in float64."""
    if COMPILER is None:
        pytest.skip("needs g++")
    code = wrap_kernel(source, Target("cuda:0", float64=True, lane_bytes=16))
    code = re.sub(r'asm volatile\("bar.sync[^)]*\)', "everybody->arrive_and_wait()", code)
    library = _compile(SHARED_WORLDS.replace("NUMBERS", str(source.shared_words * WARP)).replace("KERNEL", code))
    addresses = [arrays[name].ctypes.data for name in source.arrays]
    slots = (ctypes.c_uint64 * MAX_ARRAYS)(*addresses)
    library.launch(slots, ctypes.c_double(0.01), worlds, steps, WARP * source.threads_per_world)


def _compile(text: str) -> ctypes.CDLL:
    assert COMPILER is not None
    with tempfile.TemporaryDirectory() as folder:
        code, library = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
        code.write_text(text, encoding="utf-8")
        flags = ["-O1", "-std=c++20", "-w", "-fPIC", "-shared", "-pthread"]
        subprocess.run([COMPILER, *flags, str(code), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))  # which stays when its file is gone
