"""Far from the world's origin a robot moves as it does near it, also in float32."""

import numpy as np
import pytest
import torch

from ahac.sim import Integrator, Simulator, State
from support.marks import keep
from support.mujoco_oracle import compiled, random_states
from support.numeric_physics import Numeric
from support.robots import TWO_TREES, gymnasium_file

FAR = (1000.0, -3000.0)
"""Metres; there, neighbouring float32 numbers are 0.06 and 0.24 mm apart."""

ROBOTS = {
    "free root": (TWO_TREES, (0, 1), 2, 0.05),
    "planar root": (gymnasium_file("hopper"), (0,), 1, 0.1),
}
"""Source, the coordinates along the ground, the coordinate of height, and a height at which it touches."""


@pytest.mark.parametrize(
    ("name", "integrator"),
    keep(
        2,
        [
            ("free root", "implicit"),
            ("planar root", "explicit"),
            ("free root", "explicit"),
            ("planar root", "implicit"),
        ],
    ),
)
def test_robot_far_away_moves_as_at_the_origin_to_the_last_bit(
    name: str, integrator: Integrator, device: torch.device
) -> None:
    source, along, up, height = ROBOTS[name]
    ours = Numeric(source, ground=True)
    q, v = random_states(compiled(source), 1, seed=11)
    q[:, along], q[:, up] = 0.0, height
    assert (ours.contacts(q, v)["depth"] > 0.0).any(), "nothing touches"
    near, far = q.copy(), q.copy()
    far[:, along] = FAR[: len(along)]
    sim = Simulator(ours.model, num_worlds=2, dt=4e-3, substeps=16, device=device, integrator=integrator)
    state = State(
        torch.tensor(np.concatenate([near, far]), dtype=torch.float32, device=device),
        torch.tensor(np.concatenate([v, v]), dtype=torch.float32, device=device),
    )
    rate = sim.acceleration(state.q, state.v, torch.zeros_like(state.v), contact=True)
    assert torch.equal(rate[0], rate[1])
    after = sim.step(state)
    assert torch.equal(after.v[0], after.v[1])
    others = [i for i in range(ours.model.nq) if i not in along]
    assert torch.equal(after.q[0, others], after.q[1, others])
    moved = after.q - state.q
    # Sixteen sums, each rounded to the grid of float32 there.
    assert torch.allclose(moved[0], moved[1], atol=16 * 2.4e-4)
