"""What CUDA kernels know of a network's layers: sizes, and where its weights lie in a mirror that they read fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch

from ahac.core.hardware import shared_memory
from ahac.native.codegen import WARP
from ahac.native.source import Source
from ahac.nets.mlp import LAYER_NORM_EPS

__all__ = ["Layers", "constants", "kernel_source"]

HEADER = (Path(__file__).parent / "cuda_layers.h").read_text(encoding="utf-8")
COLUMNS = 8
"""Outputs that a lane takes at a time."""
STRIDE = 36
"""Numbers from one row of shared memory to the next."""


@dataclass(frozen=True)
class Layers:
    """Linear layers, each but the last with ELU and layer norm behind it."""

    widths: tuple[int, ...]
    """Inputs first."""

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Inputs and outputs of each."""
        return list(pairwise(self.widths))

    @property
    def warps(self) -> int:
        """Of a block: as many as there are groups of outputs, within reason."""
        return min(max(-(-max(self.widths[1:]) // COLUMNS), 4), 16)

    @property
    def shared(self) -> int:
        """Numbers of shared memory in which a block's rows go through all layers."""
        first, *hidden, last = self.widths
        return STRIDE * (first + 2 * sum(hidden) + last) + 2 * WARP * (len(hidden) + self.warps)

    def fits(self, device: torch.device) -> bool:
        """Whether a block may have so much shared memory there."""
        return 4 * self.shared <= shared_memory(device)

    def packed_weights(self) -> tuple[int, dict[str, list[int]]]:
        """Numbers of the mirror, and by name where each layer's part of it begins."""
        places: dict[str, list[int]] = {name: [] for name in ("rows", "columns", "biases", "scales", "shifts")}
        size = 0
        for inputs, outputs in self.pairs:
            counts = [
                inputs * round_up(outputs),
                outputs * round_up(inputs),
                round_up(outputs),
                round_up(outputs),
                round_up(outputs),
            ]
            for name, count in zip(places, counts, strict=True):
                places[name].append(size)
                size += count
        return size, places

    def constants(self) -> str:
        """The same as C++."""
        size, places = self.packed_weights()
        numbers = {"WARPS": self.warps, "LAYERS": len(self.pairs), "MIRROR": size, "COLUMNS": COLUMNS, "STRIDE": STRIDE}
        sizes = {"inputs": [a for a, _ in self.pairs], "outputs": [b for _, b in self.pairs]}
        return f"#define NORM_EPS real({LAYER_NORM_EPS})\n" + constants(numbers, sizes | places)


def round_up(count: int) -> int:
    """To whole groups."""
    return -(-count // COLUMNS) * COLUMNS


def constants(numbers: Mapping[str, int], lists: Mapping[str, Sequence[int]]) -> str:
    """C++ that defines them."""
    enum = ", ".join(f"{name} = {number}" for name, number in numbers.items())
    arrays = [f"const int {name}[] = {{{', '.join(map(str, values))}}};\n" for name, values in lists.items()]
    return f"enum {{ {enum} }};\n{''.join(arrays)}"


def kernel_source(
    name: str, arrays: Mapping[str, str], layers: Layers, shared: int, head: str, body: str, through: bool
) -> Source:
    """A kernel's source.

    Args:
        name: Its name.
        arrays: C++ types of the numbers in what it takes, by name.
        layers: Of the network.
        shared: Numbers of shared memory.
        head: What is defined before the layers.
        body: What follows them.
        through: Whether rows go through the layers; the head says where their `mirror` is.
    """
    pointers = "".join(
        f"[[maybe_unused]] {kind}* const {array}_p = ({kind}*)task.address[{i}];\n"
        for i, (array, kind) in enumerate(arrays.items())
    )
    code = f"#define THROUGH_LAYERS {int(through)}\n{layers.constants()}{pointers}{head}{HEADER}{body}"
    return Source(name, tuple(arrays), code, 0, threads_per_world=layers.warps, shared_words=-(-shared // WARP))
