"""Compiled float32 gradients: as good as float64's where motion is smooth, and finite where it has a kink or a zero.

Every number of the special states is a short binary fraction, so that both precisions meet exactly the same state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from ahac.sim import ContactMaterial, Model, Simulator, State, load_model
from gradients.contact_cases import contacts
from robots import gymnasium_file

WORLDS = 96
MEDIAN, NEARLY_ALL = 1e-4, 1e-2
"""Relative difference of derivatives along random directions, of half and of 90 % of the worlds. Measured: 2e-6 and 6e-5;
the worst worlds cross a kink in another substep than float64 does."""

ROUNDING = 1e-5
"""Relative, for gradients of one substep. Measured: 1.4e-7, the rounding of float32."""

SHIFT = 1024.0
"""Metres from the origin at which a coordinate's rounding, 6e-5 m, is a hundredth of a contact's depth."""

Sample = tuple[Tensor, Tensor, Tensor]
"""q, v, u, in float64."""


@dataclass(frozen=True)
class Worlds:
    """States of many worlds, and adjoints of where they end."""

    model: Model
    start: Sample
    weights: tuple[Tensor, Tensor]

    def gradients(self, dtype: torch.dtype, device: torch.device, substeps: int = 16) -> list[Tensor]:
        """With respect to q, v, u after some substeps of a millisecond; float64 numbers."""
        sim = Simulator(
            self.model, num_worlds=len(self.start[0]), dt=substeps / 1024, substeps=substeps, device=device, dtype=dtype
        )
        inputs = [x.to(sim.device, dtype).requires_grad_() for x in self.start]
        end = sim.step(State(*inputs[:2]), inputs[2])
        seeds = [w.to(sim.device, dtype) for w in self.weights]
        return [g.double().cpu() for g in torch.autograd.grad((end.q, end.v), inputs, seeds)]


@pytest.fixture(scope="module")
def ants() -> Worlds:
    """Ants in random poses, the lowest point of each up to 1 cm in the ground."""
    model = load_model(gymnasium_file("ant"), contact=ContactMaterial(stiffness=4e4, damping=1e3))
    rng = torch.Generator().manual_seed(0)

    def noise(width: int) -> Tensor:
        return torch.randn(WORLDS, width, generator=rng, dtype=torch.float64)

    q, v, u = torch.tensor(model.rest_q) + 0.1 * noise(model.nq), noise(model.nv), 0.5 * noise(model.nu)
    depth = contacts(model, {"q": q.numpy(), "v": v.numpy()})["depth"]
    q[:, 2] += torch.from_numpy(depth) - 0.01 * torch.rand(WORLDS, generator=rng)
    return Worlds(model, (q, v, u), (noise(model.nq), noise(model.nv)))


def test_directional_derivatives_in_contact_agree_with_float64(ants: Worlds, device: torch.device) -> None:
    rng = torch.Generator().manual_seed(1)
    found = [ants.gradients(dtype, device) for dtype in (torch.float32, torch.float64)]
    for narrow, wide in zip(*found, strict=True):
        along = torch.randn(wide.shape, generator=rng, dtype=torch.float64)
        slope, wanted = (narrow * along).sum(-1), (wide * along).sum(-1)
        difference = (slope - wanted).abs() / wanted.abs()
        assert difference.median() < MEDIAN
        assert difference.quantile(0.9) < NEARLY_ALL


def test_gradients_do_not_depend_on_how_far_the_robot_has_run(ants: Worlds, device: torch.device) -> None:
    q, v, u = ants.start
    far = Worlds(ants.model, (q + SHIFT * (torch.arange(ants.model.nq) < 2), v, u), ants.weights)
    for near, distant in zip(ants.gradients(torch.float32, device), far.gradients(torch.float32, device), strict=True):
        assert torch.equal(near, distant)


# ------------------------------------------------------------------------------------------------ special states

SPECIAL = """
<mujoco><compiler angle="radian"/><option density="100" viscosity="0.1"/>
<default><geom contype="0" conaffinity="0"/></default>
<worldbody><geom type="plane" size="1 1 1" conaffinity="1"/><site name="fixed" pos="2 0 1"/>
<body><freejoint/><geom type="sphere" size="0.125" mass="16" contype="1"/></body>
<body pos="1 0 1"><joint range="-0.5 0.5" damping="0.1" axis="0 1 0"/><geom type="box" size="0.1 0.1 0.1" pos="0.25 0 0"/></body>
<body pos="2 0 1"><joint type="ball" stiffness="2"/><geom type="box" size="0.1 0.2 0.1" pos="0.25 0 0"/>
  <site name="anchor"/><site name="end" pos="0.5 0 0"/>
  <body pos="0.5 0 0"><joint type="slide"/><geom type="box" size="0.1 0.1 0.1"/><site name="slider"/></body></body>
</worldbody>
<tendon><spatial name="still"><site site="fixed"/><site site="anchor"/></spatial>
<spatial name="short"><site site="end"/><site site="slider"/></spatial></tendon>
<actuator><muscle tendon="still" force="8" lengthrange="0 1"/><muscle tendon="short" force="8" lengthrange="0 1"/></actuator>
</mujoco>
"""
"""A ball over a plane, a hinge with a range, and a ball joint with a spring and two muscles; all in a fluid, at rest."""

HEIGHT, HINGE, BALL, SLIDE = 2, 7, slice(8, 12), 12
FORWARD, SPIN, BALL_SPIN = 0, slice(3, 6), slice(7, 10)
Place = Callable[[np.ndarray, np.ndarray, np.ndarray], None]


def put(**numbers: float | tuple[float, ...]) -> Place:
    """Sets coordinates by name."""
    spots = {
        "height": (0, HEIGHT),
        "hinge": (0, HINGE),
        "ball": (0, BALL),
        "slide": (0, SLIDE),
        "forward": (1, FORWARD),
    }
    spots |= {"spin": (1, SPIN), "ball_spin": (1, BALL_SPIN), "pull": (2, slice(0, 2))}

    def place(*groups: np.ndarray) -> None:
        for name, number in numbers.items():
            group, spot = spots[name]
            groups[group][spot] = number

    return place


STATES = {
    "everything at rest": put(),
    "exactly touching": put(height=0.125),
    "exactly touching, sliding": put(height=0.125, forward=1.0),
    "pressed, no slip": put(height=0.125 - 2**-9),
    "at the upper limit": put(hinge=0.5),
    "at the lower limit": put(hinge=-0.5),
    "ball turned by half": put(ball=(0.0, 1.0, 0.0, 0.0)),
    "hardly turning": put(spin=2**-20, ball_spin=2**-17),
    "muscle without length": put(pull=(1.0, 0.0)),
}
HEIGHT_AT_REST, STRETCH = 1.0, 2**-4


def special(states: dict[str, Place]) -> Worlds:
    model, rng = load_model(SPECIAL), torch.Generator().manual_seed(2)
    start = []
    for place in states.values():
        groups = np.array(model.rest_q), np.zeros(model.nv), np.zeros(model.nu)
        groups[0][[HEIGHT, SLIDE]] = HEIGHT_AT_REST, STRETCH
        place(*groups)
        start.append(groups)
    q, v, u = (torch.from_numpy(np.stack(group)) for group in zip(*start, strict=True))
    return Worlds(model, (q, v, u), tuple(torch.randn(x.shape, generator=rng, dtype=torch.float64) for x in (q, v)))


@pytest.mark.parametrize("substeps", [1, 16])
def test_gradients_at_special_states_are_finite_and_right(substeps: int, device: torch.device) -> None:
    worlds = special(STATES)
    narrow, wide = (torch.cat(worlds.gradients(d, device, substeps), -1) for d in (torch.float32, torch.float64))
    difference = (narrow - wide).norm(dim=-1) / wide.norm(dim=-1)
    wrong = {name: float(d) for name, d in zip(STATES, difference, strict=True) if not d < ROUNDING * substeps}
    assert wrong == {}


def test_a_muscle_that_can_pull_in_no_direction_leaves_a_finite_gradient(device: torch.device) -> None:
    """Both ends of its segment meet: any motion gives it a direction at once, so the gradient is large, but a number."""
    worlds = special({"ends meet": put(slide=0.0, pull=(0.0, 1.0))})
    narrow, wide = (torch.cat(worlds.gradients(d, device, 1), -1) for d in (torch.float32, torch.float64))
    assert torch.isfinite(wide).all()
    assert (narrow - wide).norm() < ROUNDING * wide.norm()
