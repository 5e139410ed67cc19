"""Trajectories through the simulator's door, in float64, as numpy arrays."""

import numpy as np
import torch

from ahac.sim import Integrator, Model, Simulator, State

__all__ = ["rollout"]


def rollout(  # noqa: PLR0913 - keyword-only
    model: Model,
    q: np.ndarray,
    v: np.ndarray,
    *,
    h: float,
    frames: int,
    every: int = 1,
    force: np.ndarray | None = None,
    device: torch.device | str = "cpu",
    integrator: Integrator = "implicit",
) -> tuple[np.ndarray, np.ndarray]:
    """Positions [frames + 1, N, nq] and velocities, from the start on, after every `every` substeps of `h` seconds.

    The start is [N, nq] and [N, nv]; `force` [N, nv] is generalised and constant.
    """
    sim = Simulator(
        model,
        num_worlds=len(q),
        dt=h * every,
        substeps=every,
        device=device,
        dtype=torch.float64,
        integrator=integrator,
    )

    def put(x: np.ndarray) -> torch.Tensor:
        return torch.tensor(np.asarray(x), device=device, dtype=torch.float64)

    push = None if force is None else put(force)
    states = [State(put(q), put(v))]
    for _ in range(frames):
        states.append(sim.step(states[-1], force=push))
    return tuple(np.stack([getattr(s, name).cpu().numpy() for s in states]) for name in "qv")  # pyright: ignore[reportReturnType]
