"""Our anymal, `anymal.xml`, against the recorded tables of dflex's.

dflex keeps all 76 links of the robot's file, with rotations and counter-rotations; we have nine bodies and plain axes.
`placed` puts dflex's tables together with nothing but numpy, and everything that follows from where its links are is
compared in random poses: contact points, mass matrix, gravity. Robots with the same mass matrix in all poses move alike
under the same forces. Tolerances: the tables are in float32.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from ahac.sim import ContactMaterial, JointKind, Model, Simulator
from reference import dflex_anymal as dflex
from reference.recorded import ROUNDING, SUBSTEP_TOLERANCE, action, assert_close, task_robot

SUBSTEP = 1.0 / 960.0
POSES = 8
"""Worlds: the start pose, then random ones."""

POINT_TOLERANCE = 16 * ROUNDING
"""[m] A foot is nine links away, each turned by a quaternion that misses unit length by a rounding."""

GRAVITY = np.array([0.0, 0.0, -9.81])
ROOT = 6
"""Velocity coordinates of the base."""


@dataclass(frozen=True)
class Placed:
    """A body of a chain, in the world."""

    body: dflex.Body
    position: np.ndarray
    rotation: np.ndarray
    hinges: tuple[tuple[int, np.ndarray, np.ndarray], ...]
    """(velocity coordinate, a point on the axis, axis) of the hinges it rides on."""

    @property
    def balls(self) -> list[np.ndarray]:
        return [self.position + self.rotation @ ball for ball in self.body.balls]


def quaternion_matrix(x: float, y: float, z: float, w: float) -> np.ndarray:
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + 2.0 * w * cross + 2.0 * cross @ cross


def placed(q: np.ndarray) -> Iterator[Placed]:
    """dflex's bodies at our coordinates q [19]: the base, then drive and foot of each leg."""
    w, x, y, z = q[3:7]
    base = Placed(dflex.BODIES["base"], q[:3], quaternion_matrix(x, y, z, w), ())
    yield base
    dof = ROOT
    for leg in dflex.LEGS.values():
        position = base.position
        rotation = base.rotation
        hinges = ()
        for step in leg:
            position = position + rotation @ step.position
            rotation = rotation @ quaternion_matrix(*step.quaternion)
            if step.axis:
                hinges = (*hinges, (dof, position, step.axis * rotation[:, 0]))
                half = 0.5 * step.axis * q[dof + 1]
                rotation = rotation @ quaternion_matrix(np.sin(half), 0.0, 0.0, np.cos(half))
                dof += 1
            if step.body:
                yield Placed(dflex.BODIES[step.body], position, rotation, hinges)


def mass_matrix_and_weight(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ m Jᵀ J + Aᵀ I A with armature, and Σ m Jᵀ g: J moves a body's center of mass, A turns it."""
    bodies = list(placed(q))
    matrix = np.diag([0.0] * ROOT + [dflex.ARMATURE] * 12)
    weight = np.zeros(ROOT + 12)
    for body in bodies:
        center = body.position + body.rotation @ body.body.center
        move, turn = np.zeros((2, 3, ROOT + 12))
        move[:, :3], turn[:, 3:ROOT] = np.eye(3), bodies[0].rotation
        move[:, 3:ROOT] = np.cross(bodies[0].rotation, center - q[:3], axisa=0, axisb=0, axisc=0)
        for dof, point, axis in body.hinges:
            move[:, dof], turn[:, dof] = np.cross(axis, center - point), axis
        tensor = body.rotation @ np.diag(body.body.moments) @ body.rotation.T
        matrix += body.body.mass * move.T @ move + turn.T @ tensor @ turn
        weight += body.body.mass * GRAVITY @ move
    return matrix, weight


@pytest.fixture(scope="module")
def anymal() -> Model:
    return task_robot("anymal")


@pytest.fixture(scope="module")
def simulator(anymal: Model) -> Simulator:
    return Simulator(anymal, num_worlds=POSES, dt=SUBSTEP, substeps=1, dtype=torch.float64, integrator="explicit")


@pytest.fixture(scope="module")
def poses(simulator: Simulator) -> torch.Tensor:
    """[POSES, 19]."""
    random = np.random.default_rng(7).normal(size=(POSES, 19))
    random[:, 3:7] /= np.linalg.norm(random[:, 3:7], axis=1, keepdims=True)
    random[0] = simulator.rest_state("start").q[0]
    return torch.from_numpy(random)


def test_loading_it_reports_nothing(caplog: pytest.LogCaptureFixture) -> None:
    task_robot("anymal")
    assert not caplog.records


def test_start_pose(anymal: Model) -> None:
    q, v = anymal.keyframes["start"].q, anymal.keyframes["start"].v
    assert q == (0.0, 0.0, dflex.HEIGHT, 1.0, 0.0, 0.0, 0.0, *(angle for leg in dflex.START.values() for angle in leg))
    assert not any(v)


def test_masses_and_moments(anymal: Model) -> None:
    """Nine bodies; a thigh is dflex's knee drive, a shank its foot, and the hips between HAA and HFE have no mass."""
    assert sum(link.mass for link in anymal.links) == pytest.approx(37.25, abs=0.005)
    names = ["base"] + 4 * ["drive", "foot"]
    for link, body in zip(anymal.links, (dflex.BODIES[name] for name in names), strict=True):
        assert link.mass == pytest.approx(body.mass, rel=8 * ROUNDING)
        assert link.moments == pytest.approx(sorted(body.moments), rel=8 * ROUNDING)


def test_joints_and_motors(anymal: Model) -> None:
    hinges = [joint for joint in anymal.joints if joint.kind is JointKind.HINGE]
    assert [joint.name for joint in hinges] == [f"{leg}_{name}" for leg in dflex.LEGS for name in ("HAA", "HFE", "KFE")]
    assert all(joint.range is None for joint in hinges)
    assert all((joint.stiffness, joint.spring_reference) == (dflex.SPRING, (0.0,)) for joint in hinges)
    assert anymal.damping == (0.0,) * ROOT + (dflex.DAMPING,) * 12
    assert anymal.armature == (0.0,) * ROOT + (dflex.ARMATURE,) * 12
    assert [motor.name for motor in anymal.actuators] == [joint.name for joint in hinges]
    assert [motor.dofs for motor in anymal.actuators] == [((ROOT + i, dflex.STRENGTH),) for i in range(12)]


def test_contact_points(anymal: Model, simulator: Simulator, poses: torch.Tensor) -> None:
    frames = simulator.poses(poses)
    order = [list(anymal.bodies).index(link.name) for link in anymal.links]
    for i in range(POSES):
        position = frames.position[i, order].numpy()
        rotation = frames.rotation[i, order].numpy()
        ours = [position[t.link] + rotation[t.link] @ t.center for t in anymal.contact_candidates]
        theirs = [ball for body in placed(poses[i].numpy()) for ball in body.balls]
        assert np.array(ours) == pytest.approx(np.array(theirs), rel=0.0, abs=POINT_TOLERANCE)
    radii = [body.body.radius for body in placed(poses[0].numpy()) for _ in body.balls]
    assert [t.radius for t in anymal.contact_candidates] == pytest.approx(radii, rel=ROUNDING)
    stiffness, damping, viscosity, friction = dflex.GROUND
    ground = ContactMaterial(stiffness=stiffness, damping=damping, viscosity=viscosity, friction=friction)
    assert [t.material for t in anymal.contact_candidates] == 14 * [ground]


def test_mass_matrix_and_gravity(simulator: Simulator, poses: torch.Tensor) -> None:
    """As if made of all 76 links: bodies that dflex has and we do not weigh nothing."""
    matrices = simulator.mass_matrix(poses)
    bias = simulator.bias_force(poses, torch.zeros_like(poses[:, 1:]))
    for i in range(POSES):
        matrix, weight = mass_matrix_and_weight(poses[i].numpy())
        assert_close(matrices[i], torch.from_numpy(matrix), SUBSTEP_TOLERANCE)
        assert_close(-bias[i], torch.from_numpy(weight), SUBSTEP_TOLERANCE)


def test_first_substep(simulator: Simulator) -> None:
    """From the start pose at rest, where no foot touches yet: (M + armature) v̇ = weight + motors − springs."""
    start, control = simulator.rest_state("start"), action(0, count=12)
    assert (simulator.contacts(start).depth < 0.0).all()
    matrix, weight = mass_matrix_and_weight(start.q[0].numpy())
    joints = dflex.STRENGTH * control[0] - dflex.SPRING * start.q[0, 7:]
    force = torch.from_numpy(weight) + torch.cat([torch.zeros(ROOT, dtype=torch.float64), joints])
    wanted = torch.linalg.solve(torch.from_numpy(matrix), force) * SUBSTEP
    state = simulator.step(start, control.repeat(POSES, 1))
    assert_close(state.v[0], wanted, SUBSTEP_TOLERANCE)
