# pyright: reportAttributeAccessIssue=false
"""Depths and points of contact against MuJoCo's collision detection."""

import math
from collections import defaultdict

import mujoco
import numpy as np
import pytest

from ahac.sim import ContactMaterial
from ahac.sim.model.types import DISC_THICKNESS
from support.mujoco_oracle import compiled, random_states
from support.numeric_physics import Numeric
from support.robots import SHAPES

STATES = 12

EXACT = 1e-7
"""Metres; MuJoCo keeps mesh vertices in float32."""

DIFFERENCE = 1e-5
"""Central differences over 1e-5 s: rounding gives 1e-16 of the energy (1e3 J) over the interval, truncation less."""

ROUNDED = 0.1 * DISC_THICKNESS
"""Metres by which the edge of a cylinder of radius 0.1 may reach below the rounded discs that stand for its ends."""

Pair = tuple[str, str]


@pytest.fixture(scope="module")
def states() -> tuple[np.ndarray, np.ndarray]:
    return random_states(compiled(SHAPES), STATES, seed=2)


@pytest.fixture(scope="module")
def mujoco_depths(states: tuple[np.ndarray, np.ndarray]) -> list[dict[Pair, float]]:
    """Of every geom and plane, in every state; a margin makes MuJoCo report distances as well."""
    model = compiled(SHAPES.replace("<default><geom", '<default><geom margin="100"'))
    model.opt.disableflags = 0
    found = []
    for q in states[0]:
        data = mujoco.MjData(model)
        data.qpos[:] = q
        mujoco.mj_forward(model, data)
        depths: dict[Pair, float] = defaultdict(lambda: -math.inf)
        for contact in data.contact:
            names = sorted((model.geom(g).name for g in contact.geom), key=lambda name: name in ("slope", "wall"))
            depths[names[0], names[1]] = max(depths[names[0], names[1]], -contact.dist)
        found.append(depths)
    return found


def our_depths(states: tuple[np.ndarray, np.ndarray]) -> list[dict[Pair, float]]:
    ours = Numeric(SHAPES)
    names = [(candidate.geom, candidate.plane.name) for candidate in ours.model.contact_candidates]
    found = []
    for row in ours.contacts(*states)["depth"]:
        depths: dict[Pair, float] = defaultdict(lambda: -math.inf)
        for pair, depth in zip(names, row, strict=True):
            depths[pair] = max(depths[pair], float(depth))
        found.append(depths)
    return found


def test_deepest_point_of_every_shape_is_as_deep_as_mujocos(
    states: tuple[np.ndarray, np.ndarray], mujoco_depths: list[dict[Pair, float]]
) -> None:
    pairs = {(shape, plane) for shape in ("box", "can", "egg", "rock", "pill", "ball") for plane in ("slope", "wall")}
    for ours, theirs in zip(our_depths(states), mujoco_depths, strict=True):
        assert set(ours) == set(theirs) == pairs
        for pair in pairs:
            short = theirs[pair] - ours[pair]
            slack = ROUNDED if pair[0] == "can" else 0.0
            assert -EXACT < short < slack + EXACT, pair


WHEEL = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1" margin="9"/>
<body name="wheel" pos="0 0 0.5"><freejoint/><geom name="rim" type="cylinder" size="0.1 0.03" mass="1"/></body>
</worldbody></mujoco>"""
"""A cylinder of radius 0.1 m above a plane; with the margin, MuJoCo reports its distance."""


def mujoco_distance(model: mujoco.MjModel, q: np.ndarray) -> float:
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_forward(model, data)
    return min(contact.dist for contact in data.contact)


def test_tilted_cylinder_is_as_far_from_a_plane_as_in_mujoco() -> None:
    rng = np.random.default_rng(3)
    ours, model = Numeric(WHEEL), mujoco.MjModel.from_xml_string(WHEEL)
    tilts = np.concatenate([rng.uniform(-np.pi, np.pi, 80), rng.normal(0.0, 0.02, 20), [0.0, np.pi / 2]])
    q = np.tile(model.qpos0, (len(tilts), 1))
    for row, tilt in zip(q, tilts, strict=True):
        axis = np.array([*rng.normal(size=2), 0.0])
        mujoco.mju_axisAngle2Quat(row[3:], axis / np.linalg.norm(axis), tilt)
    closest = -ours.contacts(q, np.zeros((len(q), 6)))["depth"].max(axis=-1)
    error = closest - np.array([mujoco_distance(model, row) for row in q])
    assert np.all(error > -EXACT)
    assert error.max() < ROUNDED
    rolling = np.abs(np.abs(tilts) - np.pi / 2) < 0.1
    assert rolling.sum() > 3
    assert error[rolling].max() < 0.1 * ROUNDED
    assert np.abs(error[-2:]).max() < EXACT  # upright and on its side


def test_only_hull_vertices_of_a_mesh_touch() -> None:
    candidates = [candidate for candidate in Numeric(SHAPES).model.contact_candidates if candidate.geom == "rock"]
    assert len(candidates) == 2 * 4


def moved(q: np.ndarray, v: np.ndarray, seconds: float) -> np.ndarray:
    model, q = compiled(SHAPES), q.copy()
    for row, rates in zip(q, v, strict=True):
        mujoco.mj_integratePos(model, row, rates, seconds)
    return q


def test_depth_grows_as_the_contact_point_moves(states: tuple[np.ndarray, np.ndarray]) -> None:
    q, v = states
    ours, dt = Numeric(SHAPES), 1e-5
    later, earlier = (ours.contacts(moved(q, v, t), v)["depth"] for t in (dt, -dt))
    normals = np.array([candidate.plane.normal for candidate in ours.model.contact_candidates])
    closing = -np.einsum("spi,pi->sp", ours.contacts(q, v)["velocity"], normals)
    np.testing.assert_allclose((later - earlier) / (2.0 * dt), closing, atol=DIFFERENCE)


def test_frictionless_contact_does_the_work_of_its_springs(states: tuple[np.ndarray, np.ndarray]) -> None:
    q, v = states
    stiffness = 1e3
    spring = ContactMaterial(stiffness=stiffness, damping=0.0, viscosity=0.0, friction=0.0)
    ours = Numeric(SHAPES, contact=spring)
    dt = 1e-5
    free = np.zeros_like(v)
    push = ours.acceleration(q, v, free, contact=True) - ours.acceleration(q, v, free)
    power = np.einsum("si,sij,sj->s", v, ours.mass_matrix(q), push)

    def stored(t: float) -> np.ndarray:
        depth = ours.contacts(moved(q, v, t), v)["depth"]
        return 0.5 * stiffness * (np.maximum(depth, 0.0) ** 2).sum(axis=-1)

    assert np.abs(power).max() > 1.0
    np.testing.assert_allclose(power, -(stored(dt) - stored(-dt)) / (2.0 * dt), rtol=DIFFERENCE, atol=DIFFERENCE)
