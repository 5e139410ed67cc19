# pyright: reportAttributeAccessIssue=false
"""Wheels roll, and cylinders stand and fall, as in MuJoCo."""

import math

import mujoco
import numpy as np
import pytest

from ahac.sim.physics.contact import compliant
from ahac.sim.physics.substep import ForceLaws
from support.numeric_physics import Numeric

H = 1.0 / 120.0
SECONDS = 2.0

WHEEL = """<mujoco><option timestep="0.002"/><worldbody><geom name="floor" type="plane" size="1 1 1"/>
<body name="wheel"><freejoint/><geom type="cylinder" size="0.1 0.05" mass="1"/></body></worldbody></mujoco>"""


def start(height: float, degrees: float, v: tuple[float, ...] = (0.0,) * 6) -> tuple[np.ndarray, np.ndarray]:
    """A cylinder tilted about x."""
    half = math.radians(degrees) / 2.0
    return np.array([0.0, 0.0, height, math.cos(half), math.sin(half), 0.0, 0.0]), np.array(v)


STARTS = {
    "rolling": start(0.1, 90.0, (1.0, 0.0, 0.0, 0.0, 0.0, -10.0)),  # 1 m/s; its axis z points along -y
    "standing": start(0.06, 0.0, (0.0, 0.0, 0.0, 0.3, 0.2, 0.0)),
    "tilted by 20": start(0.15, 20.0),
    "tilted by 50": start(0.15, 50.0),
    "tilted by 75": start(0.15, 75.0),
}


def mujoco_end(name: str) -> np.ndarray:
    model = mujoco.MjModel.from_xml_string(WHEEL)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = STARTS[name]
    for _ in range(round(SECONDS / model.opt.timestep)):
        mujoco.mj_step(model, data)
    return data.qpos


@pytest.fixture(scope="module")
def motions() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Positions and velocities after every implicit substep of H seconds, from each start."""
    ours = Numeric(WHEEL, ForceLaws(contact=compliant, implicit=True))
    q, v = (np.array(rows) for rows in zip(*STARTS.values(), strict=True))
    states = []
    for _ in range(round(SECONDS / H)):
        q, v = ours.step(q, v, H)
        states.append((q, v))
    qs, vs = (np.array(rows) for rows in zip(*states, strict=True))
    return {name: (qs[:, i], vs[:, i]) for i, name in enumerate(STARTS)}


def test_wheel_rolls_as_far_as_in_mujoco(motions: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    q, v = motions["rolling"]
    theirs = mujoco_end("rolling")
    assert theirs[0] == pytest.approx(2.0, rel=0.01)
    assert q[-1, 0] == pytest.approx(theirs[0], rel=0.02)
    assert v[-1, 0] == pytest.approx(1.0, abs=0.01)
    assert np.ptp(q[len(q) // 2 :, 2]) < 1e-4  # it does not hop
    assert abs(q[-1, 1]) < 1e-3


def test_standing_cylinder_does_not_drift(motions: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    q, v = motions["standing"]
    assert np.ptp(q[len(q) // 2 :, :2], axis=0).max() < 1e-3
    assert np.abs(q[-1, 4:6]).max() < 1e-3
    assert np.abs(v[-1]).max() < 1e-3


@pytest.mark.parametrize(("name", "upright"), [("tilted by 20", 1.0), ("tilted by 50", 1.0), ("tilted by 75", 0.0)])
def test_tilted_cylinder_falls_onto_the_side_that_it_takes_in_mujoco(
    name: str, upright: float, motions: dict[str, tuple[np.ndarray, np.ndarray]]
) -> None:
    for quaternion in (motions[name][0][-1, 3:], mujoco_end(name)[3:]):
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, quaternion)
        assert abs(rotation[8]) == pytest.approx(upright, abs=0.05)
