"""Layer sizes and the packed weight layout of a network, as the CUDA kernels read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch

from ahac.core.hardware import has_tf32, shared_memory
from ahac.native.codegen import WARP
from ahac.native.source import Source
from ahac.nets.mlp import LAYER_NORM_EPS

__all__ = ["Layers", "constants", "defines", "kernel_source", "pointers", "round_up"]

HEADER = (Path(__file__).parent / "cuda_layers.h").read_text(encoding="utf-8")
COLUMNS = 8
"""Outputs that a lane computes at a time."""
STRIDE = 36
"""Distance between rows in shared memory, in numbers."""


@dataclass(frozen=True)
class Layers:
    """Linear layers, each but the last followed by an activation and layer norm."""

    widths: tuple[int, ...]
    """Numbers of inputs, of units in each hidden layer, and of outputs."""
    function: str = "elu"
    """Activation: elu or silu."""

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Inputs and outputs of each layer."""
        return list(pairwise(self.widths))

    @property
    def warps(self) -> int:
        """Warps per block: one for each group of outputs in the widest layer, but at least 4 and at most 16."""
        return min(max(-(-max(self.widths[1:]) // COLUMNS), 4), 16)

    @property
    def shared(self) -> int:
        """Numbers of shared memory that a block needs to take its rows through all layers."""
        first, *hidden, last = self.widths
        return STRIDE * (first + 2 * sum(hidden) + last) + 2 * WARP * (len(hidden) + self.warps)

    def fits(self, device: torch.device) -> bool:
        """Whether the device has enough shared memory per block, and tensor cores for TF32."""
        return has_tf32(device) and 4 * self.shared <= shared_memory(device)

    def packed_weights(self) -> tuple[int, dict[str, list[int]]]:
        """Return the size of the packed weights, and the offset of each layer in them by name."""
        offsets: dict[str, list[int]] = {name: [] for name in ("rows", "columns", "biases", "scales", "shifts")}
        size = 0
        for inputs, outputs in self.pairs:
            counts = [
                inputs * round_up(outputs),
                outputs * round_up(inputs),
                round_up(outputs),
                round_up(outputs),
                round_up(outputs),
            ]
            for name, count in zip(offsets, counts, strict=True):
                offsets[name].append(size)
                size += count
        return size, offsets

    def constants(self) -> str:
        """Return C++ that defines the sizes and offsets."""
        size, offsets = self.packed_weights()
        numbers = {
            "WARPS": self.warps,
            "LAYERS": len(self.pairs),
            "PACKED_SIZE": size,
            "COLUMNS": COLUMNS,
            "STRIDE": STRIDE,
            "SILU": int(self.function == "silu"),
        }
        sizes = {"inputs": [a for a, _ in self.pairs], "outputs": [b for _, b in self.pairs]}
        return f"#define NORM_EPS real({LAYER_NORM_EPS})\n" + constants(numbers, sizes | offsets)


def round_up(count: int) -> int:
    """Round up to a multiple of `COLUMNS`."""
    return -(-count // COLUMNS) * COLUMNS


def constants(numbers: Mapping[str, int], lists: Mapping[str, Sequence[int]]) -> str:
    """Return C++ that defines numbers and lists of numbers by name."""
    enum = ", ".join(f"{name} = {number}" for name, number in numbers.items())
    arrays = [f"const int {name}[] = {{{', '.join(map(str, values))}}};\n" for name, values in lists.items()]
    return f"enum {{ {enum} }};\n{''.join(arrays)}"


def pointers(arrays: Mapping[str, str]) -> str:
    """Return C++ that defines a pointer NAME_p to each of a kernel's arrays, given their element types by name."""
    return "".join(
        f"[[maybe_unused]] {kind}* const {array}_p = ({kind}*)args.address[{i}];\n"
        for i, (array, kind) in enumerate(arrays.items())
    )


def defines(numbers: Mapping[str, object]) -> str:
    """Return C++ that defines macros by name."""
    return "".join(f"#define {name} {value}\n" for name, value in numbers.items())


def kernel_source(
    name: str, arrays: Mapping[str, str], layers: Layers, shared: int, head: str, body: str, through: bool
) -> Source:
    """Return the source of a kernel.

    Args:
        name: Name of the kernel.
        arrays: C++ element types of the kernel's arrays, by name.
        layers: Layers of the network.
        shared: Numbers of shared memory per block.
        head: C++ placed before `cuda_layers.h`.
        body: C++ placed after it.
        through: Whether rows go through the layers; the head must then define the pointer `packed` to the weights.
    """
    code = f"#define THROUGH_LAYERS {int(through)}\n{layers.constants()}{pointers(arrays)}{head}{HEADER}{body}"
    return Source(name, tuple(arrays), code, 0, threads_per_world=layers.warps, shared_words=-(-shared // WARP))
