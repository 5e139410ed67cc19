"""The robots of our tasks against tables of dflex's: masses, joints, motors, contact points, start poses.

Numbers are dflex's effective ones, of the models of imgeorgiev/DiffRL, commit bb59db5: dflex damps by a joint's limit
inside its range too, so that this is part of our joint damping, and our limits have stiffness only. Masses are recorded
with three decimals and agree to them; everything else is exact.
"""

import logging
import math
from dataclasses import dataclass

import pytest
import torch

from ahac.sim import ContactMaterial, JointLimit, Model, Simulator
from reference.recorded import task_robot

MASS_DIGITS = 5e-4
"""Half of the last decimal of the recorded masses [kg]."""

EXACT = 1e-12
"""Relative: rounding in float64."""


@dataclass(frozen=True)
class Table:
    """What dflex had loaded."""

    masses: dict[str, float]
    """By body [kg]."""
    damping: tuple[float, ...]
    """Of every velocity coordinate, with what its limit adds."""
    armature: tuple[float, ...]
    ranges: dict[str, tuple[float, float]]
    """Of the joints that have one."""
    limit: float
    """Stiffness of those ranges."""
    start: tuple[float, ...]
    motors: dict[str, float]
    """Strength by joint."""
    points: int
    """That may touch the ground."""
    stiffness: tuple[float, ...] = ()
    """Of the springs, by velocity coordinate; none if empty."""
    contact: ContactMaterial | None = None


ANT_CORNERS = ("front_left", "back_left", "back_right", "front_right")
ANT_LEGS, ANT_FEET = ([f"{corner}_{part}" for corner in ANT_CORNERS] for part in ("leg", "foot"))
ANT_JOINTS = [f"{corner}_{joint}" for corner in ANT_CORNERS for joint in ("hip", "ankle")]

TABLES = {
    "hopper": Table(
        masses={"torso": 3.665, "thigh": 4.058, "leg": 2.781, "foot": 5.316},
        damping=(10, 10, 10, 12, 12, 12),
        armature=(1,) * 6,
        ranges={
            "thigh": (math.radians(-150), 0.0),
            "leg": (math.radians(-150), 0.0),
            "foot": (math.radians(-45), math.radians(45)),
        },
        limit=1e3,
        start=(0, 0, 0, 0, 0, 0),
        motors={"thigh": 200, "leg": 200, "foot": 200},
        points=8,
        contact=ContactMaterial(stiffness=2e4, damping=2e3, viscosity=1e3, friction=0.9),
    ),
    "ant": Table(
        masses={"torso": 96.776, **dict.fromkeys(ANT_LEGS, 7.832), **dict.fromkeys(ANT_FEET, 13.518)},
        damping=(0,) * 6 + (11,) * 8,
        armature=(0,) * 6 + (0.05,) * 8,
        ranges={
            **dict.fromkeys(ANT_JOINTS[::2], (math.radians(-40), math.radians(40))),
            **dict.fromkeys(("front_left_ankle", "front_right_ankle"), (math.radians(30), math.radians(100))),
            **dict.fromkeys(("back_left_ankle", "back_right_ankle"), (math.radians(-100), math.radians(-30))),
        },
        limit=1e3,
        start=(0, 0, 0.75, 1, 0, 0, 0, 0, 1, 0, -1, 0, -1, 0, 1),
        motors=dict.fromkeys(ANT_JOINTS, 200.0),
        points=25,
        contact=ContactMaterial(stiffness=4e4, damping=1e4, viscosity=3e3, friction=0.75),
    ),
    "half_cheetah": Table(
        masses={
            "torso": 9.457, "hind_thigh": 2.336, "hind_shin": 2.402, "hind_foot": 1.657, "front_thigh": 2.176,
            "front_shin": 1.817, "front_foot": 1.338,
        },
        damping=(10, 10, 10, 16, 14.5, 13, 14.5, 13, 11.5),
        armature=(0.1,) * 9,
        ranges={
            "hind_thigh": (-0.52, 1.05),
            "hind_shin": (-0.785, 0.785),
            "hind_foot": (-0.4, 0.785),
            "front_thigh": (-1.5, 0.8),
            "front_shin": (-1.2, 1.1),
            "front_foot": (-3.1, -0.3),
        },
        limit=1e3,
        start=(0, -0.2, 0, 0, 0, 0, 0, 0, 0),
        motors=dict.fromkeys(
            ("hind_thigh", "hind_shin", "hind_foot", "front_thigh", "front_shin", "front_foot"), 200.0
        ),
        points=16,
        stiffness=(0, 0, 0, 240, 180, 120, 180, 120, 60),
        contact=ContactMaterial(stiffness=2e4, damping=2e3, viscosity=1e3, friction=1.0),
    ),
    "cartpole": Table(
        masses={"cart": 50.0, "pole": 2.5},
        damping=(1, 1),
        armature=(0.1, 0.1),
        ranges={"slider": (-4.0, 4.0)},
        limit=100.0,
        start=(0, math.pi),
        motors={"slider": 1000},
        points=0,
    ),
    "double_pendulum": Table(
        masses={"upper_arm": 2.5, "forearm": 2.5},
        damping=(1, 1),
        armature=(0.1, 0.1),
        ranges={},
        limit=100.0,
        start=(math.pi, 0),
        motors={"elbow": 50},
        points=0,
    ),
}  # fmt: skip


@pytest.fixture(params=TABLES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def robot(name: str) -> Model:
    return task_robot(name)


@pytest.fixture
def table(name: str) -> Table:
    return TABLES[name]


def test_loading_warns_of_nothing(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="ahac"):
        task_robot(name)
    assert not caplog.records


def test_masses(robot: Model, table: Table) -> None:
    assert {link.name: link.mass for link in robot.links} == pytest.approx(table.masses, rel=0.0, abs=MASS_DIGITS)


def test_joints(robot: Model, table: Table) -> None:
    assert robot.damping == pytest.approx(table.damping, rel=EXACT)
    assert robot.armature == pytest.approx(table.armature, rel=EXACT)
    springs = {joint.v: joint.stiffness for joint in robot.joints if joint.stiffness}
    assert springs == {k: stiffness for k, stiffness in enumerate(table.stiffness) if stiffness}
    assert all(joint.spring_reference == (0.0,) for joint in robot.joints if joint.stiffness)


def test_ranges(robot: Model, table: Table) -> None:
    ranged = {joint.name: joint for joint in robot.joints if joint.range is not None}
    assert ranged.keys() == table.ranges.keys()
    for name, joint in ranged.items():
        assert joint.range == pytest.approx(table.ranges[name], rel=EXACT)
        assert joint.limit == JointLimit(stiffness=table.limit, damping=0.0)


def test_motors(robot: Model, table: Table) -> None:
    assert [motor.name for motor in robot.actuators] == list(table.motors)
    joints = {joint.name: joint for joint in robot.joints}
    for motor in robot.actuators:
        assert motor.dofs == ((joints[motor.name].v, table.motors[motor.name]),)
        assert (motor.gain, motor.bias, motor.control_range) == (1.0, (0.0, 0.0, 0.0), (-1.0, 1.0))


def test_contact(robot: Model, table: Table) -> None:
    assert len(robot.contact_candidates) == table.points
    assert {candidate.material for candidate in robot.contact_candidates} == (
        {table.contact} if table.contact else set()
    )
    assert {candidate.plane.name for candidate in robot.contact_candidates} == ({"floor"} if table.contact else set())


def test_start(robot: Model, table: Table) -> None:
    q, v = robot.keyframes["start"].q, robot.keyframes["start"].v
    assert q == pytest.approx(table.start, rel=EXACT)
    assert not any(v)


def test_ground_is_free_at_the_start(robot: Model) -> None:
    if robot.contact_candidates:
        simulator = Simulator(robot, num_worlds=1, dt=1.0, substeps=1, dtype=torch.float64, integrator="explicit")
        assert (simulator.contacts(simulator.rest_state("start")).depth < 0).all()


POLE = 2.5 * (0.05**2 + 1.0**2) / 12
"""Moment of a bar of 2.5 kg, 5 cm wide and 1 m long, about its center [kg m²]."""


def test_mass_matrix_of_the_upright_cartpole() -> None:
    simulator = Simulator(
        task_robot("cartpole"), num_worlds=1, dt=1.0, substeps=1, dtype=torch.float64, integrator="explicit"
    )
    swing = POLE + 2.5 * 0.5**2
    wanted = [52.5 + 0.1, 2.5 * 0.5, 2.5 * 0.5, swing + 0.1]
    assert simulator.mass_matrix(simulator.rest_state().q)[0].flatten().tolist() == pytest.approx(wanted)


def test_mass_matrix_of_the_straight_double_pendulum() -> None:
    """Elbow at the end of the first arm, where dflex has it at the shoulder."""
    simulator = Simulator(
        task_robot("double_pendulum"), num_worlds=1, dt=1.0, substeps=1, dtype=torch.float64, integrator="explicit"
    )
    swing = POLE + 2.5 * 0.5**2
    far = POLE + 2.5 * 1.5**2
    both = POLE + 2.5 * 0.5 * 1.5
    wanted = [swing + far + 0.1, both, both, swing + 0.1]
    assert simulator.mass_matrix(simulator.rest_state("start").q)[0].flatten().tolist() == pytest.approx(wanted)
