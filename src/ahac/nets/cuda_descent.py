"""One pass of gradient descent over a critic's regression on CUDA: three native kernels per minibatch.

By torch's operations a minibatch is some forty small kernels, each of which takes longer to start than to run. Here one
goes through all layers, forth and back, one adds up, one steps. Moments are where torch's Adam has them.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.native.build import Kernel
from ahac.native.frame import WARP, Target
from ahac.native.source import Source
from ahac.nets.critic import Critic

__all__ = ["CudaDescent"]

BODY = (Path(__file__).parent / "cuda_descent.h").read_text(encoding="utf-8")
COLUMNS = 8
"""Outputs that a warp takes at a time."""
STRIDE = 36
"""Numbers from one row of shared memory to the next."""
RESERVED = 4096
"""Bytes of shared memory that a block has no say in, and some more."""
ARRAYS = (
    "obs", "target", "order", "theta", "first", "second", "grad", "mirror", "partial", "tile_losses", "squares",
    "losses", "steps", "rate", "idle",
)  # fmt: skip


class CudaDescent:
    """On CUDA, in float32, with Adam: all members side by side."""

    def __init__(self, critic: Critic, optimizer: torch.optim.Adam, max_norm: float | None) -> None:
        self.critic, self.optimizer = critic, optimizer
        self._warps, self._mirror = _warps(critic), _layout(critic)[0]
        self._gradient, self._reduce, self._step = self.kernels(critic, optimizer, max_norm, str(critic.theta.device))
        for kernel in (self._gradient, self._reduce, self._step):
            kernel.prepare()

    @staticmethod
    def takes(critic: Critic) -> bool:
        """Whether there are kernels for a critic like this, on a device like its own."""
        theta = critic.theta
        if not theta.is_cuda or theta.dtype != torch.float32 or len(critic.widths) < 3:
            return False
        most = torch.cuda.get_device_properties(theta.device).shared_memory_per_block_optin - RESERVED
        return _shared(critic) * theta.element_size() <= most

    @staticmethod
    def kernels(critic: Critic, optimizer: torch.optim.Adam, max_norm: float | None, device: str) -> list[Kernel]:
        """That find a minibatch's gradient, add it up, and step."""
        settings, warps = optimizer.param_groups[0], _warps(critic)
        constants = {
            "BETA1": settings["betas"][0], "BETA2": settings["betas"][1], "EPSILON": settings["eps"],
            "MAX_NORM": 3e38 if max_norm is None else max_norm,
        }  # fmt: skip
        head = "".join(f"#define {name} {value}\n" for name, value in constants.items()) + _layout(critic)[1]
        shared = {"GRADIENT": _shared(critic), "REDUCE": WARP * warps, "STEP": warps + 2}
        target = Target(device, wide=False, lane_bytes=16)
        return [Kernel(_source(name, head, warps, count), target, "critic") for name, count in shared.items()]

    def __call__(self, obs: Tensor, target: Tensor, order: Tensor, parts: int) -> Tensor:
        """One pass; every member's gradient is clipped by its own norm."""
        theta, members, size = self.critic.theta, *self.critic.theta.shape
        if (obs.dtype, target.dtype) != (theta.dtype, theta.dtype) or obs.device != theta.device:
            raise InputError(
                f"a fit on {theta.device} takes float32 there, got {obs.dtype} and {target.dtype} on {obs.device}"
            )
        if theta.grad is None:
            theta.grad = torch.zeros_like(theta)
        moments, idle = self.optimizer.state[theta], getattr(self.optimizer, "found_inf", None)
        tiles, blocks = -(-len(order) // parts // WARP), -(-size // WARP)
        made = {
            "obs": obs.contiguous(), "target": target.contiguous(), "theta": theta, "grad": theta.grad,
            "first": moments["exp_avg"], "second": moments["exp_avg_sq"], "steps": moments["step"],
            "rate": self.optimizer.param_groups[0]["lr"], "mirror": theta.new_empty(members, self._mirror),
            "partial": theta.new_empty(members * tiles, size), "tile_losses": theta.new_empty(members * tiles),
            "squares": theta.new_empty(members * blocks), "losses": theta.new_empty(parts, members),
        }  # fmt: skip
        arrays = {name: tensor.data_ptr() for name, tensor in made.items()}
        if idle is not None:
            arrays["idle"] = idle.data_ptr()
        stream = torch.cuda.current_stream(theta.device).cuda_stream

        def launch(kernel: Kernel, rows: int, part: int, blocks: int) -> None:
            kernel.launch(arrays, rows, part, 0.0, stream=stream, blocks=blocks)

        steppers = -(-size // (WARP * self._warps)) * members
        launch(self._step, -1, 0, steppers)
        for part, rows in enumerate(order.tensor_split(parts)):
            arrays["order"] = rows.data_ptr()
            launch(self._gradient, len(rows), part, -(-len(rows) // WARP) * members)
            launch(self._reduce, len(rows), part, blocks * members)
            launch(self._step, len(rows), part, steppers)
        moments["step"].add_(parts if idle is None else (1.0 - idle) * parts)
        return made["losses"].mean(dim=0)


def _shared(critic: Critic) -> int:
    """Numbers of shared memory in which a tile of rows goes through all layers."""
    hidden = critic.widths[1:-1]
    return STRIDE * (critic.widths[0] + 2 * sum(hidden)) + 2 * WARP * (len(hidden) + _warps(critic)) + WARP


def _warps(critic: Critic) -> int:
    """Warps of a block: as many as there are groups of outputs, within reason."""
    return min(max(-(-max(critic.widths[1:-1]) // COLUMNS), 4), 16)


def _layout(critic: Critic) -> tuple[int, str]:
    """Numbers of a member's mirror, and what the kernels know of the critic's shape."""
    layers = list(pairwise(critic.widths))
    names = ("weight", "bias", "scale", "shift", "end", "rows", "columns", "biases", "scales", "shifts")
    places: dict[str, list[int]] = {name: [] for name in names}
    weights = mirror = 0
    for k, (inputs, outputs) in enumerate(layers):
        wide, tall, last = _up(outputs), _up(inputs), k == len(layers) - 1
        own = [inputs * outputs, outputs, *([0, 0] if last else [outputs, outputs])]
        for name, size in zip(names[:5], [0, *own], strict=True):
            weights += size
            places[name].append(weights)
        copies = [tall, 0, COLUMNS, 0, 0] if last else [inputs * wide, outputs * tall if k else 0, wide, wide, wide]
        for name, size in zip(names[5:], copies, strict=True):
            places[name].append(mirror)
            mirror += size
    numbers = {
        "WARPS": _warps(critic), "LAYERS": len(layers), "SIZE": weights, "MIRROR": mirror, "MEMBERS": critic.members
    }  # fmt: skip
    arrays = {"inputs": [a for a, _ in layers], "outputs": [b for _, b in layers], **places}
    constants = f"enum {{ {', '.join(f'{name} = {number}' for name, number in numbers.items())} }};\n"
    lists = [f"const int {name}[LAYERS] = {{{', '.join(map(str, values))}}};\n" for name, values in arrays.items()]
    return mirror, constants + "".join(lists)


def _up(count: int) -> int:
    return -(-count // COLUMNS) * COLUMNS


def _source(name: str, head: str, warps: int, shared: int) -> Source:
    kinds = ["const long long" if array == "order" else "real" for array in ARRAYS]
    pointers = "".join(
        f"{kind}* const {array}_p = ({kind}*)task.address[{i}];\n"
        for i, (array, kind) in enumerate(zip(ARRAYS, kinds, strict=True))
    )
    chosen = "".join(f"#define {other} {int(other == name)}\n" for other in ("GRADIENT", "REDUCE", "STEP"))
    return Source(name.lower(), ARRAYS, f"{chosen}{head}{pointers}{BODY}", 0, parts=warps, slots=-(-shared // WARP))
