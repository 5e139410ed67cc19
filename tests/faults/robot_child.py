"""Load a mutated robot; `python -m faults.robot_child FILE` compiles and steps it in a separate process."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["LOADED", "REFUSED", "load", "step"]

LOADED, REFUSED = 0, 3
"""Exit statuses."""
STEPS = 100
WORLDS = 2
DT = 0.01
SUBSTEPS = 4


def load(path: Path) -> int:
    """Load it; refusing it with the project's own error is fine, too."""
    from ahac.sim import ModelError, load_model

    try:
        model = load_model(path)
    except ModelError as error:
        sys.stdout.write(f"refused: {error}\n")
        return REFUSED
    sys.stdout.write(f"loaded: {model.nv} degrees of freedom\n")
    return LOADED


def step(path: Path) -> int:
    """Load it, compile it and step it under random actions."""
    import torch

    from ahac.core.errors import AhacError
    from ahac.sim import Simulator, load_model

    try:
        sim = Simulator(load_model(path), num_worlds=WORLDS, dt=DT, substeps=SUBSTEPS)
    except AhacError as error:
        sys.stdout.write(f"refused: {error}\n")
        return REFUSED
    rng = torch.Generator().manual_seed(0)
    state = sim.rest_state()
    for _ in range(STEPS):
        control = 2.0 * torch.rand(WORLDS, sim.model.nu, generator=rng) - 1.0
        state = sim.step(state, control)
    finite = bool(sim.is_finite(state).all())
    sys.stdout.write(f"stepped, {'finite' if finite else 'not finite'}\n")
    return LOADED


if __name__ == "__main__":
    sys.exit(step(Path(sys.argv[1])))
