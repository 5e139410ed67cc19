# pyright: reportAttributeAccessIssue=false
"""The SNU Humanoid's file: what it counts to, that its muscles pull as MuJoCo's tendons do, and as those of a leg."""

import logging
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

import ahac
from ahac.sim import Model, Simulator, State, load_model
from support.mujoco_oracle import compiled, random_states, settled

ROBOT = Path(ahac.__file__).parent / "envs" / "assets" / "snu_humanoid.xml"
MUSCLES = 152

POSES = 4
"""Random ones, about a radian away from the start pose in every joint; the start pose itself comes before them."""

EXACT = 1e-9
"""Relative to a muscle's largest moment: both sides compute in float64; ours goes through the mass matrix and back."""

REACH = 0.07
"""[m] How far way-points lie outside the box of their bone at most: sinews run behind hips and over knees."""

SINGLE_MUSCLES = {
    "iliacus": ("hip", -1), "gluteus_maximus1": ("hip", 1), "semitendinosus": ("hip", 1), "rectus_femoris": ("hip", -1),
    "vastus_lateralis": ("knee", -1), "bicep_femoris_short": ("knee", 1), "gastrocnemius_medial_head": ("knee", 1),
    "tibialis_anterior": ("ankle", -1), "soleus": ("ankle", 1), "peroneus_longus": ("ankle", 1),
    "extensor_hallucis_longus": ("thumb", -1), "extensor_digitorum_longus2": ("pinky", -1),
    "flexor_digitorum_longus3": ("pinky", 1),
}  # fmt: skip
"""A joint each turns in the start pose, and which way about the axis to the left: +1 moves what is below backwards,
toes down."""

CROSSED = {
    "adductor_longus": {"hip"}, "sartorius": {"hip", "knee"}, "popliteus": {"knee"}, "plantaris": {"knee", "ankle"},
    "soleus": {"ankle"}, "extensor_hallucis_longus": {"ankle", "thumb"}, "flexor_hallucis": {"ankle", "thumb"},
    "extensor_digitorum_longus": {"ankle", "thumb"}, "flexor_digitorum_longus3": {"ankle", "pinky"},
    "flexor_digiti_minimi_brevis_foot": {"pinky"},
}  # fmt: skip
"""All joints between a muscle's way-points."""


@dataclass(frozen=True)
class Pulls:
    """What every muscle does alone, at full activation, in every pose: [poses, muscles, coordinates]."""

    model: Model
    q: np.ndarray
    ours: np.ndarray
    mujocos: np.ndarray

    @cached_property
    def names(self) -> list[str]:
        return [muscle.name for muscle in self.model.actuators]

    def at_start(self, muscle: str, joint: str) -> np.ndarray:
        """Our moments of one muscle about one joint in the start pose [N m]."""
        dofs = [k for j in self.model.joints if j.name == joint for k in j.dofs]
        return self.ours[0, self.names.index(muscle), dofs]


@pytest.fixture(scope="module")
def robot() -> Model:
    return load_model(ROBOT, strict=True)


@pytest.fixture(scope="module")
def pulls(robot: Model) -> Pulls:
    """One world per pose and muscle, one more per pose in which all are slack: force = M (v̇ − v̇ when slack)."""
    theirs = compiled(ROBOT, actuation=True)
    q = np.concatenate([theirs.qpos0[None], random_states(theirs, POSES, seed=5)[0]])
    q[:, 2] += 2.0
    sim = Simulator(
        robot, num_worlds=len(q) * (MUSCLES + 1), dt=1.0, substeps=1, dtype=torch.float64, integrator="explicit"
    )
    state = State(torch.from_numpy(q.repeat(MUSCLES + 1, axis=0)), torch.zeros(sim.num_worlds, robot.nv).double())
    control = torch.eye(MUSCLES + 1, MUSCLES).double().repeat(len(q), 1)
    v = sim.step(state, control).v.view(len(q), MUSCLES + 1, robot.nv)
    matrix = sim.mass_matrix(state.q).view(len(q), MUSCLES + 1, robot.nv, robot.nv)
    ours = torch.einsum("pmij,pmj->pmi", matrix[:, :-1], v[:, :-1] - v[:, -1:])
    return Pulls(robot, q, ours.numpy(), mujocos_pulls(theirs, q))


def mujocos_pulls(model: mujoco.MjModel, q: np.ndarray) -> np.ndarray:
    """−strength · Jacobian of the tendon's length."""
    forces = []
    for data in settled(model, q, np.zeros((len(q), model.nv))):
        moment = np.zeros((model.nu, model.nv))
        mujoco.mju_sparse2dense(
            moment, data.actuator_moment, data.moment_rownnz, data.moment_rowadr, data.moment_colind
        )
        forces.append(model.actuator_gainprm[:, :1] * moment)
    return np.stack(forces)


def test_file_loads_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        load_model(ROBOT, strict=True)
    assert not caplog.messages


def test_what_the_file_counts_to(robot: Model) -> None:
    assert (len(robot.links), robot.nq, robot.nv, robot.nu) == (11, 29, 24, MUSCLES)
    assert sum(link.mass for link in robot.links) == pytest.approx(37.0, abs=1e-9)
    assert len(robot.contact_candidates) == 8 * 11
    assert sum(len(muscle.tendon.points) for muscle in robot.actuators if muscle.tendon) == len(robot.sites) == 636
    strengths = [-muscle.gain for muscle in robot.actuators]
    assert (min(strengths), max(strengths)) == pytest.approx((0.36 * 45.0, 0.36 * 1792.95))
    assert {muscle.control_range for muscle in robot.actuators} == {(0.0, 1.0)}
    sides = [muscle.name[-2:] for muscle in robot.actuators]
    assert sides == ["_l", "_r"] * (MUSCLES // 2)


def test_way_points_lie_on_their_bones() -> None:
    """And those on a toe no farther from it than from the toe beside it."""
    model = compiled(ROBOT)
    (data,) = settled(model, model.qpos0[None], np.zeros((1, model.nv)))

    def distance(site: int, bone: str) -> float:
        geom = model.geom(bone).id
        at = data.geom_xmat[geom].reshape(3, 3).T @ (data.site_xpos[site] - data.geom_xpos[geom])
        return float(np.linalg.norm(np.maximum(np.abs(at) - model.geom_size[geom], 0.0)))

    other = {"thumb_r": "pinky_r", "pinky_r": "thumb_r", "thumb_l": "pinky_l", "pinky_l": "thumb_l"}
    for site in range(model.nsite):
        name = model.site(site).name
        bone = model.body(model.site_bodyid[site]).name
        assert distance(site, bone) < REACH, f"{name} is far from {bone}"
        assert bone not in other or distance(site, bone) < distance(site, other[bone]), f"{name} is on the wrong toe"


def test_thumbs_are_the_inner_toes(robot: Model) -> None:
    at = {link.name: link.position[1] for link in robot.links}
    assert at["pinky_r"] < at["thumb_r"]
    assert at["thumb_l"] < at["pinky_l"]


@pytest.mark.extended
def test_every_muscle_pulls_along_mujocos_moment_arms(pulls: Pulls) -> None:
    largest = np.abs(pulls.mujocos).max(axis=(0, 2))
    assert largest.min() > 0.005, "a muscle moves nothing"
    error = np.abs(pulls.ours - pulls.mujocos).max(axis=2) / largest
    worst = np.unravel_index(error.argmax(), error.shape)
    assert error.max() < EXACT, f"{pulls.names[worst[1]]} in pose {worst[0]}: {error.max():.1e}"


@pytest.mark.extended
@pytest.mark.parametrize("side", ["_r", "_l"])
@pytest.mark.parametrize(("muscle", "turns"), SINGLE_MUSCLES.items(), ids=SINGLE_MUSCLES)
def test_muscle_turns_its_joint_the_right_way(pulls: Pulls, muscle: str, turns: tuple[str, int], side: str) -> None:
    joint, way = turns
    moments = pulls.at_start(muscle + side, joint + side)
    assert way * moments[len(moments) // 2] > 0.1


@pytest.mark.extended
@pytest.mark.parametrize("side", ["_r", "_l"])
@pytest.mark.parametrize(("muscle", "joints"), CROSSED.items(), ids=CROSSED)
def test_muscle_moves_only_the_joints_it_crosses(pulls: Pulls, muscle: str, joints: set[str], side: str) -> None:
    names = [joint.name for joint in pulls.model.joints]
    moved = {name for name in names if np.abs(pulls.at_start(muscle + side, name)).max() > 1e-6}
    assert moved == {joint + side for joint in joints}


@pytest.mark.extended
def test_left_mirrors_right_down_to_the_ankle(pulls: Pulls) -> None:
    """The source's toes do not mirror each other. Moments are mirrored as (−x, y, −z)."""
    right, left = pulls.ours[0, 1::2], pulls.ours[0, ::2]
    mirror = np.array([-1, 1, -1, 1, -1, 1, -1])  # hip, knee, ankle
    assert np.abs(left[:, 15:22] - mirror * right[:, 6:13]).max() < 1e-6 * np.abs(right).max()


def test_activation_is_between_zero_and_one(robot: Model) -> None:
    sim = Simulator(robot, num_worlds=4, dt=1.0, substeps=1, dtype=torch.float64, integrator="explicit")
    levels = torch.tensor([[-1.0], [0.0], [1.0], [2.0]]).double()
    v = sim.step(sim.rest_state("start"), levels.expand(4, MUSCLES).contiguous()).v
    assert torch.equal(v[0], v[1])
    assert torch.equal(v[2], v[3])
    assert not torch.equal(v[1], v[2])
