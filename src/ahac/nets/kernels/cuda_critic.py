"""One pass of gradient descent over a critic's regression on CUDA: three native kernels per minibatch.

By torch's operations a minibatch is some forty small kernels, each of which takes longer to start than to run. Here one
goes through all layers, forth and back, one adds up, one steps. Moments are where torch's Adam has them.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.native.build import Kernel
from ahac.native.codegen import WARP, Target
from ahac.nets.critic import Critic
from ahac.nets.kernels.cuda_layers import Layers, constants, kernel_source

__all__ = ["CudaKernelEpoch"]

HERE = Path(__file__).parent
ARRAYS = {"order": "const long long"} | dict.fromkeys(
    (
        "obs", "target", "theta", "first", "second", "grad", "mirror", "partial", "tile_losses", "squares", "losses",
        "steps", "rate", "idle",
    ),
    "real",
)  # fmt: skip
MINIBATCH = "[[maybe_unused]] const int minibatch = args.count;\n"
UNLESS_IDLE = "if (idle_p && *idle_p != 0) return;  // all threads alike: nobody waits at a barrier\n"
ROWS = """
const int tiles = (n + 31) / 32, member = block / 32 / tiles, tile = block / 32 % tiles;
const real* const mirror = mirror_p + (long long)member * MIRROR;
"""


class CudaKernelEpoch:
    """On CUDA, in float32, with Adam: all members side by side."""

    max_in_flight = 3
    """Passes that may be queued before anybody knows whether they are needed: those that are not take no time."""

    def __init__(self, critic: Critic, optimizer: torch.optim.Adam, max_norm: float | None) -> None:
        self.critic = critic
        self.optimizer = optimizer
        self._layers = Layers(tuple(critic.widths))
        self._gradient, self._reduce, self._step = self.kernels(critic, optimizer, max_norm, str(critic.theta.device))
        for kernel in (self._gradient, self._reduce, self._step):
            kernel.prepare()

    @staticmethod
    def supports(critic: Critic) -> bool:
        """Whether there are kernels for a critic like this, on a device like its own."""
        theta = critic.theta
        if not theta.is_cuda or theta.dtype != torch.float32 or len(critic.widths) < 3:
            return False
        return Layers(tuple(critic.widths)).fits(theta.device)

    @staticmethod
    def kernels(critic: Critic, optimizer: torch.optim.Adam, max_norm: float | None, device: str) -> list[Kernel]:
        """That find a minibatch's gradient, add it up, and step."""
        settings, layers = optimizer.param_groups[0], Layers(tuple(critic.widths))
        numbers = {
            "BETA1": settings["betas"][0],
            "BETA2": settings["betas"][1],
            "EPSILON": settings["eps"],
            "MAX_NORM": 3e38 if max_norm is None else max_norm,
        }
        head = (
            "".join(f"#define {name} {value}\n" for name, value in numbers.items())
            + _places(critic)
            + MINIBATCH
            + UNLESS_IDLE
        )
        shared = {"gradient": layers.shared, "reduce": WARP * layers.warps, "step": layers.warps + 2}
        target, made = Target(device, float64=False, lane_bytes=16), []
        for name, count in shared.items():
            through = name == "gradient"
            body = (HERE / f"cuda_{name}.h").read_text(encoding="utf-8")
            source = kernel_source(name, ARRAYS, layers, count, head + (ROWS if through else ""), body, through=through)
            made.append(Kernel(source, target, "critic"))
        return made

    def __call__(self, obs: Tensor, target: Tensor, order: Tensor, minibatches: int) -> Tensor:
        """One pass; every member's gradient is clipped by its own norm."""
        theta, members, size = self.critic.theta, *self.critic.theta.shape
        rate = self.optimizer.param_groups[0]["lr"]
        wanted = (theta.dtype, theta.device)
        if any((x.dtype, x.device) != wanted for x in (obs, target)):
            got = f"{obs.dtype} on {obs.device} and {target.dtype} on {target.device}"
            raise InputError(f"a fit on {theta.device} takes float32 there, got {got}")
        if not isinstance(rate, Tensor) or rate.device != theta.device:
            raise InputError(f"the rate must lie on {theta.device}, as ahac.nets.optim.adam has it, got {rate!r}")
        order = order.to(theta.device, torch.int64).contiguous()
        if theta.grad is None:
            theta.grad = torch.zeros_like(theta)
        moments = self.optimizer.state[theta]
        idle = getattr(self.optimizer, "found_inf", None)
        tiles, blocks = -(-len(order) // minibatches // WARP), -(-size // WARP)
        made = {
            "obs": obs.contiguous(),
            "target": target.contiguous(),
            "theta": theta,
            "grad": theta.grad,
            "first": moments["exp_avg"],
            "second": moments["exp_avg_sq"],
            "steps": moments["step"],
            "rate": rate,
            "mirror": theta.new_empty(members, self._layers.packed_weights()[0]),
            "partial": theta.new_empty(members * tiles, size),
            "tile_losses": theta.new_empty(members * tiles),
            "squares": theta.new_empty(members * blocks),
            "losses": theta.new_empty(minibatches, members),
        }
        arrays = {name: tensor.data_ptr() for name, tensor in made.items()}
        if idle is not None:
            arrays["idle"] = idle.data_ptr()
        stream = torch.cuda.current_stream(theta.device).cuda_stream

        def launch(kernel: Kernel, rows: int, part: int, blocks: int) -> None:
            kernel.launch(arrays, items=rows, count=part, stream=stream, blocks=blocks)

        steppers = -(-size // (WARP * self._layers.warps)) * members
        launch(self._step, -1, 0, steppers)
        for part, rows in enumerate(order.tensor_split(minibatches)):
            arrays["order"] = rows.data_ptr()
            launch(self._gradient, len(rows), part, -(-len(rows) // WARP) * members)
            launch(self._reduce, len(rows), part, blocks * members)
            launch(self._step, len(rows), part, steppers)
        moments["step"].add_(minibatches if idle is None else (1.0 - idle) * minibatches)
        return made["losses"].mean(dim=0)


def _places(critic: Critic) -> str:
    """Where each layer's weights are in those of a member, as C++."""
    places: dict[str, list[int]] = {name: [] for name in ("weight", "bias", "scale", "shift", "end")}
    size, pairs = 0, Layers(tuple(critic.widths)).pairs
    for k, (inputs, outputs) in enumerate(pairs):
        normed = 0 if k == len(pairs) - 1 else outputs
        for name, count in zip(places, (0, inputs * outputs, outputs, normed, normed), strict=True):
            size += count
            places[name].append(size)
    return constants({"SIZE": size, "MEMBERS": critic.members}, places)
