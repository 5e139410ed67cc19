"""Compiled gradients exactly on kinks and zeros: finite, and the same in float32 as in float64.

Every number of the states is a short binary fraction, so that both precisions meet exactly the same state.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from ahac.sim import Integrator, load_model
from gradients.precision import Worlds

ROUNDING = 1e-5
"""Relative, per substep; measured 1.4e-7, the rounding of float32."""

SPECIAL = """
<mujoco><compiler angle="radian"/><option density="100" viscosity="0.1"/>
<default><geom contype="0" conaffinity="0"/></default>
<worldbody><geom type="plane" size="1 1 1" conaffinity="1"/><site name="fixed" pos="2 0 1"/>
<body><freejoint/><geom type="sphere" size="0.125" mass="16" contype="1"/></body>
<body pos="1 0 1"><joint range="-0.5 0.5" damping="0.1" axis="0 1 0"/>
  <geom type="box" size="0.1 0.1 0.1" pos="0.25 0 0"/></body>
<body pos="2 0 1"><joint type="ball" stiffness="2"/><geom type="box" size="0.1 0.2 0.1" pos="0.25 0 0"/>
  <site name="anchor"/><site name="end" pos="0.5 0 0"/>
  <body pos="0.5 0 0"><joint type="slide"/><geom type="box" size="0.1 0.1 0.1"/><site name="slider"/></body></body>
</worldbody>
<tendon><spatial name="still"><site site="fixed"/><site site="anchor"/></spatial>
<spatial name="short"><site site="end"/><site site="slider"/></spatial></tendon>
<custom><text name="ahac:muscles" data="linear"/></custom>
<actuator><muscle tendon="still" force="8" lengthrange="0 1"/>
<muscle tendon="short" force="8" lengthrange="0 1"/></actuator>
</mujoco>
"""
"""A ball over a plane, a hinge with a range, and a ball joint with a spring and two muscles; all in a fluid."""

HEIGHT = 2
HINGE = 7
BALL = slice(8, 12)
SLIDE = 12
FORWARD = 0
SPIN = slice(3, 6)
BALL_SPIN = slice(7, 10)
SetState = Callable[[np.ndarray, np.ndarray, np.ndarray], None]


def put(**numbers: float | tuple[float, ...]) -> SetState:
    """Sets coordinates by name."""
    spots = {
        "height": (0, HEIGHT),
        "hinge": (0, HINGE),
        "ball": (0, BALL),
        "slide": (0, SLIDE),
        "forward": (1, FORWARD),
    }
    spots |= {"spin": (1, SPIN), "ball_spin": (1, BALL_SPIN), "pull": (2, slice(0, 2))}

    def set_state(*groups: np.ndarray) -> None:
        for name, number in numbers.items():
            group, spot = spots[name]
            groups[group][spot] = number

    return set_state


STATES = {
    "everything at rest": put(),
    "exactly touching": put(height=0.125),
    "exactly touching, sliding": put(height=0.125, forward=1.0),
    "pressed, no slip": put(height=0.125 - 2**-9),
    "at the upper limit": put(hinge=0.5),
    "at the lower limit": put(hinge=-0.5),
    "ball turned by half": put(ball=(0.0, 1.0, 0.0, 0.0)),
    "no quaternion at all": put(ball=(0.0, 0.0, 0.0, 0.0)),
    "hardly turning": put(spin=2**-20, ball_spin=2**-17),
    "muscle without length": put(pull=(1.0, 0.0)),
}
HEIGHT_AT_REST, STRETCH = 1.0, 2**-4


def special(states: dict[str, SetState]) -> Worlds:
    model, rng = load_model(SPECIAL), torch.Generator().manual_seed(2)
    start = []
    for set_state in states.values():
        groups = np.array(model.rest_q), np.zeros(model.nv), np.zeros(model.nu)
        groups[0][[HEIGHT, SLIDE]] = HEIGHT_AT_REST, STRETCH
        set_state(*groups)
        start.append(groups)
    q, v, u = (torch.from_numpy(np.stack(group)) for group in zip(*start, strict=True))
    weights = [torch.randn(x.shape, generator=rng, dtype=torch.float64) for x in (q, v)]
    return Worlds(model, (q, v, u), (weights[0], weights[1]))


@pytest.mark.parametrize(
    ("substeps", "integrator"), [(1, "implicit"), (16, "implicit"), (1, "explicit"), (16, "explicit")]
)
def test_gradients_at_special_states_are_finite_and_right(
    substeps: int, integrator: Integrator, device: torch.device
) -> None:
    worlds = special(STATES)
    dtypes = (torch.float32, torch.float64)
    narrow, wide = (torch.cat(worlds.gradients(d, device, substeps, integrator), -1) for d in dtypes)
    difference = (narrow - wide).norm(dim=-1) / wide.norm(dim=-1)
    wrong = {name: float(d) for name, d in zip(STATES, difference, strict=True) if not d < ROUNDING * substeps}
    assert wrong == {}


def test_a_muscle_that_can_pull_in_no_direction_leaves_a_finite_gradient(device: torch.device) -> None:
    """Both ends of its segment meet: any motion gives it a direction at once, so the gradient is large, but finite."""
    worlds = special({"ends meet": put(slide=0.0, pull=(0.0, 1.0))})
    narrow, wide = (torch.cat(worlds.gradients(d, device, 1), -1) for d in (torch.float32, torch.float64))
    assert torch.isfinite(wide).all()
    assert (narrow - wide).norm() < ROUNDING * wide.norm()
