# pyright: reportAttributeAccessIssue=false
"""Kinematics, inertia and free dynamics against MuJoCo, number by number."""

import os
from dataclasses import dataclass

import mujoco
import numpy as np
import pytest
import torch

from ahac.sim import Simulator, Vec3, World
from support.marks import keep
from support.mujoco_oracle import compiled, random_states, settled
from support.numeric_physics import Numeric
from support.robots import GYMNASIUM, REFERENCES, SMALL_ROBOTS, gymnasium_file

STATES = 6

EXACT = 1e-9
"""Relative, of the largest number: float64 on both sides; an ill-conditioned mass matrix may cost 1e4 ulp."""

SINGLE = 1e-4
"""The same for float32, whose ulp is 1e-7."""

WATER = '<option density="1000" viscosity="0.5" wind="1 2 3" '


def switched_off(source: str, *flags: str) -> str:
    """The same file with parts of MuJoCo's physics disabled."""
    disabled = " ".join(f'{flag}="disable"' for flag in flags)
    return source.replace("</mujoco>", f"<option><flag {disabled}/></option></mujoco>")


SOURCES: dict[str, str | os.PathLike[str]] = {
    **{name: gymnasium_file(name) for name in GYMNASIUM},
    **SMALL_ROBOTS,
    **{f"{name} in water": SMALL_ROBOTS[name].replace("<option ", WATER) for name in ("nested", "ball chain")},
    **{f"references without {flag}": switched_off(REFERENCES, flag) for flag in ("spring", "damper", "gravity")},
}


@dataclass
class Case:
    """One robot in a few random states, here and there."""

    ours: Numeric
    theirs: mujoco.MjModel
    q: np.ndarray
    v: np.ndarray
    force: np.ndarray
    data: list[mujoco.MjData]


def make_case(source: str | os.PathLike[str], states: int = STATES) -> Case:
    theirs = compiled(source)
    q, v = random_states(theirs, states, seed=7)
    force = 5.0 * np.random.default_rng(8).normal(size=v.shape)
    return Case(Numeric(source), theirs, q, v, force, settled(theirs, q, v, force))


@pytest.fixture(scope="module", params=list(SOURCES))
def case(request: pytest.FixtureRequest) -> Case:
    return make_case(SOURCES[request.param])


def error(got: np.ndarray, wanted: np.ndarray) -> float:
    """Largest difference, relative to the largest number of the same state."""
    assert got.shape == wanted.shape
    axes = tuple(range(1, wanted.ndim))
    return float((np.abs(got - wanted).max(axes) / np.abs(wanted).max(axes)).max())


def body_velocities(case: Case) -> np.ndarray:
    """[states, bodies, 6] angular and linear velocity of MuJoCo's body frames in world axes."""
    found = np.zeros((len(case.q), case.theirs.nbody, 6))
    for i, data in enumerate(case.data):
        for body in range(case.theirs.nbody):
            frame = mujoco.mjtObj.mjOBJ_XBODY
            mujoco.mj_objectVelocity(case.theirs, data, frame, body, found[i, body], 0)
    return found


def full_mass_matrices(case: Case) -> np.ndarray:
    """[states, nv, nv], column by column."""
    found = np.zeros((len(case.q), case.theirs.nv, case.theirs.nv))
    for data, matrix in zip(case.data, found, strict=True):
        for column, unit in zip(matrix, np.eye(case.theirs.nv), strict=True):
            mujoco.mj_mulM(case.theirs, data, column, unit)
    return found


def test_bodies_are_where_mujoco_has_them(case: Case) -> None:
    position, rotation = case.ours.poses(case.q)
    assert error(position, np.stack([d.xpos for d in case.data])) < EXACT
    assert error(rotation, np.stack([d.xmat.reshape(-1, 3, 3) for d in case.data])) < EXACT


@pytest.mark.parametrize("name", ["nested", "muscle arm"])
def test_sites_are_where_mujoco_has_them(name: str) -> None:
    case = make_case(SOURCES[name])
    sites = list(case.ours.model.sites)
    position = case.ours.look(lambda w: [x for site in sites for x in w.position(site)], q=case.q, v=case.v)
    assert error(position.reshape(STATES, -1, 3), np.stack([d.site_xpos for d in case.data])) < EXACT
    turns = case.ours.look(lambda w: [x for s in sites for r in w.rotation(s).rows for x in r], q=case.q, v=case.v)
    assert error(turns.reshape(STATES, -1, 9), np.stack([d.site_xmat for d in case.data])) < EXACT


def test_bodies_move_as_in_mujoco(case: Case) -> None:
    def spatial(world: World) -> list[Vec3]:
        return [
            part for name in case.ours.model.bodies for part in (world.angular_velocity(name), world.velocity(name))
        ]

    found = case.ours.look(lambda world: [x for part in spatial(world) for x in part], q=case.q, v=case.v)
    assert error(found.reshape(len(case.q), -1, 6), body_velocities(case)) < EXACT


def test_mass_matrix_is_mujocos(case: Case) -> None:
    assert error(case.ours.mass_matrix(case.q), full_mass_matrices(case)) < EXACT


def test_bias_force_is_mujocos(case: Case) -> None:
    assert error(case.ours.bias_force(case.q, case.v), np.stack([d.qfrc_bias for d in case.data])) < EXACT


def test_acceleration_is_mujocos(case: Case) -> None:
    found = case.ours.acceleration(case.q, case.v, case.force)
    assert error(found, np.stack([d.qacc for d in case.data])) < EXACT


def test_disabled_passive_forces_include_drag() -> None:
    case = make_case(switched_off(REFERENCES.replace("<option ", WATER), "spring", "damper"))
    test_acceleration_is_mujocos(case)


@pytest.mark.parametrize(("dtype", "tolerance"), keep(1, [(torch.float64, EXACT), (torch.float32, SINGLE)]))
def test_simulator_answers_as_mujoco(dtype: torch.dtype, tolerance: float, device: torch.device) -> None:
    case = make_case(gymnasium_file("ant"))
    sim = Simulator(case.ours.model, num_worlds=STATES, dt=0.01, substeps=1, device=device, dtype=dtype)
    q, v, force = (torch.tensor(x, dtype=dtype, device=device) for x in (case.q, case.v, case.force))
    poses = sim.poses(q)
    assert poses.names[1] == "torso"
    answers = {
        "position": (poses.position, [d.xpos for d in case.data]),
        "rotation": (poses.rotation, [d.xmat.reshape(-1, 3, 3) for d in case.data]),
        "mass matrix": (sim.mass_matrix(q), full_mass_matrices(case)),
        "bias force": (sim.bias_force(q, v), [d.qfrc_bias for d in case.data]),
        "acceleration": (sim.acceleration(q, v, force), [d.qacc for d in case.data]),
    }
    for name, (got, wanted) in answers.items():
        assert error(got.double().cpu().numpy(), np.stack(wanted)) < tolerance, name
