# pyright: reportAttributeAccessIssue=false
"""Force laws and readouts of the user's own."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import mujoco
import numpy as np
import pytest
import torch

from ahac.sim import (
    AppliedForce,
    Mat3,
    Real,
    Simulator,
    State,
    TraceError,
    Vec3,
    World,
    abs_,
    clip,
    load_model,
    norm,
    tanh,
)
from support.mujoco_oracle import compiled, random_states, settled
from support.robots import PENDULUM, ROVER

EXACT = 1e-11
"""Relative, of the largest number: float64 on both sides."""

WORLDS = 4


def build(source: str, device: torch.device, **options: Any) -> Simulator:  # noqa: ANN401
    settings = {"num_worlds": WORLDS, "dt": 0.01, "substeps": 4, "device": device, "dtype": torch.float64, **options}
    return Simulator(load_model(source), **settings)


def random_state(source: str, device: torch.device) -> State:
    q, v = (torch.tensor(x, device=device) for x in random_states(compiled(source), WORLDS, seed=5))
    q[:, 2] = 0.15
    return State(q, v)


READOUTS: dict[str, Callable[[World], Any]] = {
    "height": lambda w: w.position("trunk").z,
    "hand": lambda w: w.velocity("arm"),
    "frame": lambda w: w.rotation("eye"),
    "joint": lambda w: [w.joint_position("shoulder"), w.joint_velocity("shoulder"), *w.angular_velocity("arm")],
    "vectors": lambda w: [w.position("eye"), w.position("world")],
    "constant": lambda w: 3,
    "progress": lambda w: w.position("trunk").x - w.before.position("trunk").x,  # pyright: ignore[reportOptionalMemberAccess]
    "effort": lambda w: abs_(w.control[0]) + tanh(w.q[7]),
}


def test_readouts_are_evaluated_on_the_state_after_the_step(device: torch.device) -> None:
    sim = build(ROVER, device, readouts=READOUTS)
    start = random_state(ROVER, device)
    control = torch.tensor([[0.1], [-0.2], [3.0], [0.0]], dtype=torch.float64, device=device)
    after = sim.step(start, control)
    y = {name: value.cpu().numpy() for name, value in after.readouts.items()}
    shapes = {
        "height": (),
        "hand": (3,),
        "frame": (3, 3),
        "joint": (5,),
        "vectors": (6,),
        "constant": (),
        "progress": (),
        "effort": (),
    }
    assert {name: value.shape for name, value in y.items()} == {
        name: (WORLDS, *shape) for name, shape in shapes.items()
    }
    q, v = after.q.cpu().numpy(), after.v.cpu().numpy()
    data = settled(compiled(ROVER), q, v)
    wanted = {
        "height": q[:, 2],
        "frame": np.stack([d.site("eye").xmat.reshape(3, 3) for d in data]),
        "vectors": np.stack([np.concatenate([d.site("eye").xpos, np.zeros(3)]) for d in data]),
        "constant": np.full(WORLDS, 3.0),
        "progress": q[:, 0] - start.q.cpu().numpy()[:, 0],
        "effort": np.abs(control.cpu().numpy()[:, 0]) + np.tanh(q[:, 7]),
    }
    for name, values in wanted.items():
        np.testing.assert_allclose(y[name], values, atol=EXACT, err_msg=name)
    np.testing.assert_allclose(y["joint"][:, :2], np.column_stack([q[:, 7], v[:, 6]]), atol=EXACT)
    # Read on a state that no step led to: the same, but nothing was before it.
    fresh = sim.evaluate_readouts(State(after.q, after.v), control)
    assert fresh["progress"].tolist() == [0.0] * WORLDS
    for name in set(READOUTS) - {"progress"}:
        torch.testing.assert_close(fresh[name], after.readouts[name], rtol=EXACT, atol=EXACT)


def lift(world: World) -> Iterator[AppliedForce]:
    """A push at the eye, one elsewhere with a torque, and a torque on the shoulder that follows the control."""
    yield world.apply_force("eye", Vec3(1.0, -2.0, 3.0))
    yield world.apply_force(
        "arm", Vec3(0.5, 0.0, 4.0), at=world.position("trunk") + Vec3(0.1, 0.2, 0.3), torque=Vec3(0.3, 0.2, 0.1)
    )
    yield world.apply_joint_force("shoulder", world.joint_velocity("shoulder") * -0.7)


def test_force_laws_push_and_drive_as_mujoco_applies_forces(device: torch.device) -> None:
    sim = build(ROVER, device, forces=[lift])
    start = random_state(ROVER, device)
    q, v = start.q.cpu().numpy(), start.v.cpu().numpy()
    theirs = compiled(ROVER)
    applied = np.zeros_like(v)
    for data, force in zip(settled(theirs, q, v), applied, strict=True):
        eye, trunk = data.site("eye").xpos, data.body("trunk").xpos
        for body, push, torque, at in [
            ("trunk", [1.0, -2.0, 3.0], [0.0, 0.0, 0.0], eye),
            ("arm", [0.5, 0.0, 4.0], [0.3, 0.2, 0.1], trunk + np.array([0.1, 0.2, 0.3])),
        ]:
            mujoco.mj_applyFT(theirs, data, np.array(push), np.array(torque), at, theirs.body(body).id, force)
        force[6] += -0.7 * data.qvel[6]
    wanted = np.stack([d.qacc for d in settled(theirs, q, v, applied)])
    got = sim.acceleration(start.q, start.v, torch.zeros_like(start.v)).cpu().numpy()
    assert np.abs(got - wanted).max() < EXACT * np.abs(wanted).max()
    assert not torch.equal(sim.step(start).v, build(ROVER, device).step(start).v)


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown body": ({"readouts": {"x": lambda w: w.position("leg")}}, "no body or site named 'leg'; it has: arm, eye"),
    "unknown joint": (
        {"forces": [lambda w: [w.apply_joint_force("root", 1.0)]]},
        "no hinge or slide named 'root'.*; it has: .*shoulder",
    ),
    "push on the world": ({"forces": [lambda w: [w.apply_force("world", Vec3(1.0, 0.0, 0.0))]]}, "'world' is fixed"),
    "branch on a value": ({"readouts": {"x": lambda w: 1.0 if w.q[2] > 0.0 else 0.0}}, "no truth value"),
    "wrong type": ({"readouts": {"x": lambda w: "high"}}, "readout 'x' must return a traced scalar, .* got str"),
    "nothing": ({"readouts": {"x": lambda w: None}}, "readout 'x' must return .* got NoneType"),
    "nested list": ({"readouts": {"x": lambda w: [[1.0]]}}, "readout 'x' must return .* got list"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_traced_code_are_refused_when_the_simulator_is_made(mistake: str) -> None:
    options, message = MISTAKES[mistake]
    with pytest.raises(TraceError, match=message):
        build(ROVER, torch.device("cpu"), **options)


def test_comparing_a_traced_value_for_equality_is_refused() -> None:
    with pytest.raises(TraceError):
        build(ROVER, torch.device("cpu"), readouts={"x": lambda w: 1.0 if w.q[2] == 0.3 else 0.0})


def test_bound_may_be_infinite(device: torch.device) -> None:
    sim = build(PENDULUM, device, readouts={"x": lambda w: clip(w.q[0], -math.inf, 0.5)})
    assert sim.evaluate_readouts(sim.rest_state())["x"].tolist() == [0.0] * WORLDS


def test_vectors_and_matrices_compute_as_in_numpy(device: torch.device) -> None:
    def algebra(world: World) -> list[Real]:
        a, b = Vec3(*world.v[:3]), Vec3(*world.v[3:6])
        frame: Mat3 = world.rotation("trunk")
        turned = frame.transpose() @ (frame.times(Mat3.of(np.eye(3).tolist())) @ a)
        return [a.dot(b), norm(a), *a.cross(b), *(a * 2.0 - b / 4.0), *turned]

    sim = build(ROVER, device, readouts={"algebra": algebra})
    start = random_state(ROVER, device)
    v = start.v.cpu().numpy()
    a, b = v[:, :3], v[:, 3:6]
    wanted = np.column_stack([(a * b).sum(1), np.linalg.norm(a, axis=1), np.cross(a, b), 2 * a - b / 4, a])
    np.testing.assert_allclose(sim.evaluate_readouts(start)["algebra"].cpu(), wanted, atol=EXACT)
