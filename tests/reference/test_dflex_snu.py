"""Our SNU Humanoid against the recorded numbers of dflex's: boxes, mass matrix, one substep, 50 steps.

`like_dflex` takes back what our file does differently on purpose, and the tests then find nothing else: dflex computed
in float32, we compute in float64, and all tolerances but the last test's follow from that. The last test bounds how far
the file as it is departs from dflex.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import ahac
from ahac.sim import AppliedForce, Model, Simulator, State, Vec3, World, load_model
from reference import dflex_snu as dflex

ROBOT = Path(ahac.__file__).parent / "envs" / "assets" / "snu_humanoid.xml"
H = dflex.DT / dflex.SUBSTEPS

ROUNDING = 2.0**-24
"""Of one operation in float32, relative."""

MATRIX_TOLERANCE = 8 * ROUNDING
"""Relative to the largest entry: dflex adds up inertias about the world's origin, link by link."""

PULL, INERTIA = 323.0, 0.05
"""The strongest muscle at half activation [N]; what a joint turns at least, its armature [kg m²]."""

SUBSTEP_TOLERANCE = H * 4 * ROUNDING * PULL * 1.0 / INERTIA
"""Of velocities after one substep: dflex takes moments of pulls about the world's origin, 1 m away, where one rounding
is PULL · 1 m · ROUNDING; sums of some dozen pulls are allowed four of them."""

SPREADS = 2.0
"""How many spreads a state may be off: a spread is how far one random move of the start by 1e-6 takes dflex itself,
rounding errors made on the way go another way."""

CORNER_TOLERANCE = 3e-6
"""[m] The source's rotation matrices have four digits; dflex and we find rotations near them that differ by up to 1e-5
rad, which is this much at the far end of a box."""

FEMUR_TURN = 0.104
"""[rad] about the long axis: dflex takes the source's entries ±0.21 as they are, we read ±0.0021. A tilt of 0.001 rad
comes with it, 3 % of what the turn moves a corner."""

DEPARTURE, TOE_DEPARTURE = 0.005, 0.03
"""Of our file from dflex in the first substep, relative to the largest joint acceleration: by inertias that are not
diagonal; and of the left toes, by muscles that pull at the other toe."""


@pytest.fixture(scope="module")
def robot() -> Model:
    """The file as it is, but with muscles that can push: dflex's actions are in [-1, 1]."""
    model = load_model(ROBOT, strict=True)
    return replace(model, actuators=tuple(replace(muscle, control_range=None) for muscle in model.actuators))


@pytest.fixture(scope="module")
def like_dflex(robot: Model) -> Simulator:
    """With dflex's inertias, dflex's springs on balls and dflex's toes for the muscles on the left; by substep."""
    links = [
        replace(
            link,
            moments=tuple(dflex.body_axes(dflex.INERTIA[dflex.LINKS.index(link.name)]).tolist()),
            principal=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
            joints=tuple(replace(j, stiffness=0.0) if len(j.dofs) == 3 else j for j in link.joints),
        )
        for link in robot.links
    ]
    model = replace(with_toes_exchanged(robot), links=tuple(links))
    return by_substep(model, [imaginary_springs])


def by_substep(model: Model, forces: list) -> Simulator:
    return Simulator(
        model, num_worlds=1, dt=H, substeps=1, dtype=torch.float64, forces=forces, num_threads=1, integrator="explicit"
    )


def with_toes_exchanged(model: Model) -> Model:
    """On the left, muscles of the inner toe on the outer one and the reverse, their way-points where they were."""
    inner, outer = (
        next(i for i, link in enumerate(model.links) if link.name == name) for name in ("thumb_l", "pinky_l")
    )
    shift = np.subtract(model.links[inner].position, model.links[outer].position)
    moves = {inner: (outer, shift), outer: (inner, -shift)}

    def moved(link: int, at: tuple[float, float, float]) -> tuple[int, tuple[float, float, float]]:
        other, offset = moves.get(link, (link, np.zeros(3)))
        x, y, z = np.add(at, offset).tolist()
        return other, (x, y, z)

    muscles = []
    for muscle in model.actuators:
        assert muscle.tendon is not None
        points = tuple(moved(*point) for point in muscle.tendon.points)
        muscles.append(replace(muscle, tendon=replace(muscle.tendon, points=points)))
    return replace(model, actuators=tuple(muscles))


def imaginary_springs(world: World) -> list[AppliedForce]:
    """dflex's law for balls: torque = −stiffness · imaginary part of the quaternion."""
    efforts = []
    for parent, child, joint in (("pelvis", "femur", "hip"), ("tibia", "talus", "ankle")):
        for side in ("_r", "_l"):
            (ball,) = (j for j in world.model.joints if j.name == joint + side)
            turn = Vec3(*world.q[ball.q + 1 : ball.q + 4])
            torque = world.rotation(child + side) @ turn * -dflex.BALL_STIFFNESS[joint]
            base = parent if parent == "pelvis" else parent + side
            none = Vec3(0.0, 0.0, 0.0)
            efforts += [
                world.apply_force(child + side, none, torque=torque),
                world.apply_force(base, none, torque=-torque),
            ]
    return efforts


def row(numbers: np.ndarray) -> Tensor:
    return torch.from_numpy(numbers)[None]


def action(t: int) -> Tensor:
    """The float32 numbers that dflex was given."""
    return row(np.array([0.5 * math.sin(0.1 * t + i) for i in range(152)])).float().double()


def start() -> State:
    q, v = dflex.converted(dflex.STATES[0].q, dflex.STATES[0].v)
    return State(row(q), row(v))


def integrated_like_dflex(before: State, after: State) -> State:
    """`after`, from the same accelerations, by dflex's way of integrating.

    It integrates the root's twist about the world's origin: with u the velocity of the root and ω its angular velocity,
    x' = x + h s and u' = s + h ω' × s, where s = u + h (u̇ − ω × u). Rotations move to first order: r + h/2 r ω',
    normalized.
    """
    (q, v), (q1, v1) = ((s.q[0].numpy(), s.v[0].numpy().copy()) for s in (before, after))
    new = q1.copy()
    for i, k in dflex.BALLS:
        turn = q[i : i + 4] + 0.5 * H * dflex.product(q[i : i + 4], np.r_[0.0, v1[k : k + 3]])
        new[i : i + 4] = turn / np.linalg.norm(turn)
    spin = dflex.turned(v[3:6], q[3:7])
    new_spin = dflex.turned(v1[3:6], q[3:7])
    slide = v1[:3] - H * np.cross(spin, v[:3])
    new[:3] = q[:3] + H * slide
    v1[:3] = slide + H * np.cross(new_spin, slide)
    return State(row(new), row(v1))


def trajectory(sim: Simulator, steps: int) -> Iterator[State]:
    """States after 0, 1, ... `steps` steps."""
    state = start()
    yield state
    for t in range(steps):
        control = action(t)
        for _ in range(dflex.SUBSTEPS):
            state = integrated_like_dflex(state, sim.step(state, control))
        yield state


def test_start_pose_is_dflexs(robot: Model) -> None:
    """To the rounding of the recorded √½."""
    q, v = robot.keyframes["start"].q, robot.keyframes["start"].v
    assert (start().q - torch.tensor([q])).abs().max() < 2 * ROUNDING
    assert (start().v - torch.tensor([v])).abs().max() == 0.0


def test_balls_are_as_stiff_as_dflexs_at_small_angles(robot: Model) -> None:
    """There the imaginary part of a quaternion is half the rotation vector. To the digits of the file."""
    stiffness = {joint.name[:-2]: joint.stiffness for joint in robot.joints if len(joint.dofs) == 3}
    for joint, recorded in dflex.BALL_STIFFNESS.items():
        assert stiffness[joint] == pytest.approx(recorded / 2.0, rel=1e-7)


@pytest.mark.parametrize("link", dflex.LINKS)
def test_corners_of_boxes(robot: Model, link: str) -> None:
    corners = np.array(
        [candidate.center for candidate in robot.contact_candidates if robot.links[candidate.link].name == link]
    )
    for recorded in dflex.CORNERS[dflex.LINKS.index(link)]:
        nearest = np.linalg.norm(corners - dflex.body_axes(recorded), axis=1).min()
        if link.startswith("femur"):
            half_diagonal = math.hypot(0.1271, 0.1398) / 2.0
            assert nearest == pytest.approx(FEMUR_TURN * half_diagonal, rel=0.03)
        else:
            assert nearest < CORNER_TOLERANCE


def test_mass_matrix_at_the_start(like_dflex: Simulator) -> None:
    by_dflexs = np.stack([dflex.converted(dflex.STATES[0].q, unit)[1] for unit in np.eye(24)], axis=1)
    back = np.linalg.inv(by_dflexs)
    wanted = back.T @ np.array(dflex.FIRST_SUBSTEP.mass_matrix) @ back
    got = like_dflex.mass_matrix(start().q)[0].numpy() - np.diag(dflex.ARMATURE)
    assert np.abs(got - wanted).max() <= MATRIX_TOLERANCE * np.abs(wanted).max()


@pytest.mark.extended
def test_first_substep(like_dflex: Simulator) -> None:
    q, v = dflex.converted(dflex.FIRST_SUBSTEP.q, dflex.FIRST_SUBSTEP.v)
    state = like_dflex.step(start(), action(0))
    assert (state.v - row(v)).abs().max() <= SUBSTEP_TOLERANCE
    assert (state.q - row(q)).abs().max() <= 2 * ROUNDING


@pytest.mark.extended
def test_states_over_50_steps(like_dflex: Simulator) -> None:
    """|error| <= SPREADS times the largest spread up to that step + ROUNDING · |largest entry|.

    On the way the feet and the toes come to stand on the ground, knees go over their limits, and it all falls.
    """
    q_spread = v_spread = 0.0
    for k, state in enumerate(trajectory(like_dflex, max(dflex.STATES))):
        if k in dflex.STATES:
            wanted = dflex.STATES[k]
            q_spread = max(q_spread, wanted.q_spread)
            v_spread = max(v_spread, wanted.v_spread)
            q, v = (row(numbers) for numbers in dflex.converted(wanted.q, wanted.v))
            assert (state.q - q).abs().max() <= SPREADS * q_spread + ROUNDING * q.abs().max(), f"q after {k} steps"
            assert (state.v - v).abs().max() <= SPREADS * v_spread + ROUNDING * v.abs().max(), f"v after {k} steps"


@pytest.mark.extended
def test_the_file_itself_departs_by_little_in_the_first_substep(robot: Model) -> None:
    _, wanted = dflex.converted(dflex.FIRST_SUBSTEP.q, dflex.FIRST_SUBSTEP.v)
    error = (by_substep(robot, []).step(start(), action(0)).v - row(wanted)).abs()[0] / np.abs(wanted).max()
    assert error[:22].max() <= DEPARTURE
    assert DEPARTURE < error[22:].max() <= TOE_DEPARTURE
