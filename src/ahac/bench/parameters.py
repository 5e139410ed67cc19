"""Cost of parameters: a step of a model whose constants are inputs, next to a step of the model as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ahac.bench.clock import interleaved
from ahac.bench.rows import Row, clean_gpu
from ahac.sim import Model, Simulator, State

__all__ = ["PATTERNS", "parameter_costs"]

PATTERNS = ("body_mass:*", "geom_friction:*", "actuator_gain:*")
"""Parameters that are declared by default."""
ROLLOUT = 16
"""Control steps per measurement."""


def parameter_costs(
    model: Model, patterns: Sequence[str], sizes: list[int], device: str, threads: list[int], seconds: float
) -> list[Row]:
    """Measure steps of 20 ms with gradients, without parameters, with constant ones, and with gradients for them."""
    rows = []
    for worlds in sizes:
        for n in threads:
            with clean_gpu(device):
                rows.append(_row(model, patterns, worlds, device, n, seconds))
    return rows


def _row(model: Model, patterns: Sequence[str], worlds: int, device: str, threads: int, seconds: float) -> Row:
    parameters = model.parameters(*patterns)
    settings = {"num_worlds": worlds, "dt": 0.02, "substeps": 4, "device": device, "num_threads": threads}
    plain, declared = Simulator(model, **settings), Simulator(model, parameters=parameters, **settings)
    values = parameters.defaults(worlds, declared.device, declared.dtype)
    took = interleaved(
        {
            "plain": _rollout(plain, None),
            "constant": _rollout(declared, values),
            "gradients": _rollout(declared, values.clone().requires_grad_()),
        },
        plain.device,
        seconds,
    )
    return {
        "model": model.name,
        "parameters": parameters.size,
        "device": device,
        "threads": threads if device == "cpu" else "-",
        "worlds": worlds,
        "without [ms]": took["plain"] * 1e3 / ROLLOUT,
        "constant [ms]": took["constant"] * 1e3 / ROLLOUT,
        "with gradients [ms]": took["gradients"] * 1e3 / ROLLOUT,
        "ratio": took["gradients"] / took["plain"],
    }


def _rollout(sim: Simulator, values: torch.Tensor | None) -> Callable[[], None]:
    """Return a rollout from the rest state under random controls, with gradients for all inputs that require them."""
    rng = torch.Generator(sim.device).manual_seed(0)
    shape = (sim.num_worlds, sim.model.nu)
    controls = [
        torch.rand(shape, generator=rng, device=sim.device).mul(2.0).sub(1.0).requires_grad_() for _ in range(ROLLOUT)
    ]
    rest = sim.rest_state()
    start = State(rest.q.requires_grad_(), rest.v.requires_grad_(), act=rest.act)
    inputs = [start.q, start.v, *controls]
    if values is not None and values.requires_grad:
        inputs.append(values)

    def roll() -> None:
        state = start
        for control in controls:
            state = sim.step(state, control, parameters=values)
        torch.autograd.grad((state.q, state.v), inputs, (torch.ones_like(state.q), torch.ones_like(state.v)))

    return roll
