"""One epoch of critic training on CUDA: three native kernels per minibatch.

In torch a minibatch takes some forty small kernels, each of which takes longer to launch than to run. Here one kernel
computes the gradient, one sums it up, and one takes the Adam step. Adam's moments are those of torch's optimizer.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.native.build import Kernel
from ahac.native.codegen import WARP, Target
from ahac.nets.critic import Critic
from ahac.nets.kernels.cuda_layers import Layers, constants, defines, kernel_source

__all__ = ["CudaKernelEpoch"]

HERE = Path(__file__).parent
ARRAYS = {"order": "const long long"} | dict.fromkeys(
    (
        "obs", "target", "theta", "exp_avg", "exp_avg_sq", "grad", "packed", "partial", "tile_losses", "squares",
        "losses", "steps", "learning_rate", "skip",
    ),
    "real",
)  # fmt: skip
MINIBATCH = "[[maybe_unused]] const int minibatch = args.count;\n"
RETURN_IF_SKIPPED = "if (skip_p && *skip_p != 0) return;  // in all threads alike, so none waits at a barrier\n"
TILE_OF_BLOCK = """
const int tiles = (n + 31) / 32, member = block / 32 / tiles, tile = block / 32 % tiles;
const real* const packed = packed_p + (long long)member * PACKED_SIZE;
"""


class CudaKernelEpoch:
    """Trains a float32 critic with Adam on CUDA, all members in parallel."""

    max_in_flight = 3
    """Epochs that may be queued before the host knows whether they are needed; skipped epochs take almost no time."""

    def __init__(self, critic: Critic, optimizer: torch.optim.Adam, max_grad_norm: float | None) -> None:
        self.critic = critic
        self.optimizer = optimizer
        self._layers = Layers(tuple(critic.widths), critic.function)
        device = str(critic.theta.device)
        self._gradient, self._reduce, self._step = self.kernels(critic, optimizer, max_grad_norm, device)
        for kernel in (self._gradient, self._reduce, self._step):
            kernel.prepare()

    @staticmethod
    def supports(critic: Critic) -> bool:
        """Whether the kernels can train this critic: float32, on CUDA, with hidden layers that fit."""
        theta = critic.theta
        if not theta.is_cuda or theta.dtype != torch.float32 or len(critic.widths) < 3:
            return False
        return Layers(tuple(critic.widths)).fits(theta.device)

    @staticmethod
    def kernels(critic: Critic, optimizer: torch.optim.Adam, max_grad_norm: float | None, device: str) -> list[Kernel]:
        """Return the kernels that compute a minibatch's gradient, sum it up, and take the Adam step."""
        settings, layers = optimizer.param_groups[0], Layers(tuple(critic.widths), critic.function)
        numbers = {
            "BETA1": settings["betas"][0],
            "BETA2": settings["betas"][1],
            "EPSILON": settings["eps"],
            "WEIGHT_DECAY": settings["weight_decay"],
            "MAX_NORM": 3e38 if max_grad_norm is None else max_grad_norm,
        }
        head = defines(numbers) + _offsets(critic) + MINIBATCH + RETURN_IF_SKIPPED
        shared = {"gradient": layers.shared, "reduce": WARP * layers.warps, "step": layers.warps + 2}
        target, kernels = Target(device, float64=False, lane_bytes=16), []
        for name, count in shared.items():
            through = name == "gradient"
            body = (HERE / f"cuda_{name}.h").read_text(encoding="utf-8")
            full_head = head + (TILE_OF_BLOCK if through else "")
            source = kernel_source(name, ARRAYS, layers, count, full_head, body, through=through)
            kernels.append(Kernel(source, target, "critic"))
        return kernels

    def __call__(self, obs: Tensor, target: Tensor, order: Tensor, minibatches: int) -> Tensor:
        """See `ahac.nets.critic_training.CriticEpoch`."""
        theta, members, size = self.critic.theta, *self.critic.theta.shape
        learning_rate = self.optimizer.param_groups[0]["lr"]
        if any((x.dtype, x.device) != (theta.dtype, theta.device) for x in (obs, target)):
            raise InputError(
                f"the CUDA critic kernels expect float32 tensors on {theta.device}, got {obs.dtype} on {obs.device} "
                f"and {target.dtype} on {target.device}; convert them, or use TorchEpoch"
            )
        if not isinstance(learning_rate, Tensor) or learning_rate.device != theta.device:
            raise InputError(
                f"the learning rate must be a tensor on {theta.device}, got {learning_rate!r}; "
                "create the optimizer with ahac.nets.optim.shac_adam"
            )
        order = order.to(theta.device, torch.int64).contiguous()
        if theta.grad is None:
            theta.grad = torch.zeros_like(theta)
        moments = self.optimizer.state[theta]
        skip = getattr(self.optimizer, "found_inf", None)
        tiles, blocks = -(-len(order) // minibatches // WARP), -(-size // WARP)
        tensors = {
            "obs": obs.contiguous(),
            "target": target.contiguous(),
            "theta": theta,
            "grad": theta.grad,
            "exp_avg": moments["exp_avg"],
            "exp_avg_sq": moments["exp_avg_sq"],
            "steps": moments["step"],
            "learning_rate": learning_rate,
            "packed": theta.new_zeros(members, self._layers.packed_weights()[0]),
            "partial": theta.new_empty(members * tiles, size),
            "tile_losses": theta.new_empty(members * tiles),
            "squares": theta.new_empty(members * blocks),
            "losses": theta.new_empty(minibatches, members),
        }
        arrays = {name: tensor.data_ptr() for name, tensor in tensors.items()}
        if skip is not None:
            arrays["skip"] = skip.data_ptr()
        stream = torch.cuda.current_stream(theta.device).cuda_stream

        def launch(kernel: Kernel, rows: int, part: int, blocks: int) -> None:
            kernel.launch(arrays, items=rows, count=part, stream=stream, blocks=blocks)

        step_blocks = -(-size // (WARP * self._layers.warps)) * members
        launch(self._step, -1, 0, step_blocks)  # only packs the weights
        for i, rows in enumerate(order.tensor_split(minibatches)):
            arrays["order"] = rows.data_ptr()
            launch(self._gradient, len(rows), i, -(-len(rows) // WARP) * members)
            launch(self._reduce, len(rows), i, blocks * members)
            launch(self._step, len(rows), i, step_blocks)
        moments["step"].add_(minibatches if skip is None else (1.0 - skip) * minibatches)
        return tensors["losses"].mean(dim=0)


def _offsets(critic: Critic) -> str:
    """Return C++ that defines the offsets of each layer's weights in those of a member."""
    offsets: dict[str, list[int]] = {name: [] for name in ("weight", "bias", "scale", "shift", "end")}
    size, pairs = 0, Layers(tuple(critic.widths)).pairs
    for k, (inputs, outputs) in enumerate(pairs):
        normed = 0 if k == len(pairs) - 1 else outputs
        for name, count in zip(offsets, (0, inputs * outputs, outputs, normed, normed), strict=True):
            size += count
            offsets[name].append(size)
    return constants({"SIZE": size, "MEMBERS": critic.members}, offsets)
