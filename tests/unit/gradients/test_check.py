"""Gradient checks: correct gradients pass, wrong ones are named, and kinks are skipped."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.envs import Action, make_task, uniform
from ahac.gradients.check import CheckSettings, GradientReport, check
from ahac.gradients.finite_differences import compare
from ahac.sim import Real, World, load_model, stop_gradient
from support.remembering import remembering_task

ROBOT = """<mujoco model="crate"><worldbody><geom name="floor" type="plane" size="1 1 1"/>
  <body name="crate" pos="0 0 .3"><freejoint name="root"/><geom name="box" type="box" size=".1 .1 .1" mass="1"/>
    <body name="arm" pos="0 0 .1"><joint name="elbow" axis="0 1 0" range="-60 60"/>
      <geom name="arm" type="capsule" fromto="0 0 0 0 0 .3" size=".02" mass=".2"
      contype="0" conaffinity="0"/></body></body></worldbody>
  <actuator><motor name="elbow" joint="elbow" ctrlrange="-2 2"/></actuator></mujoco>"""
SMALL = CheckSettings(states=4, steps=40)
CRATE = CheckSettings(states=8, steps=60)


class Wrong(torch.autograd.Function):
    """x³ with the derivative of x²."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ANN401 - torch has no type for it
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *bars: Tensor) -> Tensor:  # noqa: ANN401
        return bars[0] * 2.0 * ctx.saved_tensors[0]


def column(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


def test_a_smooth_function_agrees() -> None:
    comparison = compare(
        lambda x, y: torch.cat([x.sin() * y, y.exp()], dim=-1), [column(0.3, 2.0), column(1.0, -2.0)], [1, 1], 1e-6
    )
    assert comparison.error.shape == (2, 2, 2)
    assert float(comparison.error.max()) < 1e-8
    assert not comparison.kink.any()


def test_a_wrong_derivative_is_detected() -> None:
    comparison = compare(Wrong.apply, [column(0.5, 2.0)], [1], 1e-5)
    assert comparison.error.flatten() == pytest.approx([1 / 3, 2 / 3], rel=1e-4)


def test_kinks_are_skipped() -> None:
    comparison = compare(torch.relu, [column(0.0, 1.0, 3e-9)], [1], 1e-5)
    assert comparison.kink.flatten().tolist() == [True, False, True]
    assert comparison.error.flatten().isnan().tolist() == [True, False, True]
    assert float(comparison.error[1]) < 1e-9


def test_strong_curvature_is_not_a_kink() -> None:
    comparison = compare(lambda x: 1e6 * x**2, [column(0.0, 1e-3)], [1], 1e-5)
    assert not comparison.kink.any()
    assert float(comparison.error.max()) < 1e-6


def test_an_output_that_does_not_depend_on_an_input_agrees() -> None:
    comparison = compare(lambda x, y: 1e3 + 0.0 * x + y, [column(0.1), column(0.2)], [1], 1e-5)
    assert float(comparison.error.max()) < 1e-5


def test_an_empty_input_changes_nothing() -> None:
    alone = compare(torch.sin, [column(0.3, 2.0)], [1], 1e-6)
    with_empty = compare(
        lambda empty, x: x.sin(), [torch.zeros(2, 0, dtype=torch.float64), column(0.3, 2.0)], [1], 1e-6
    )
    assert torch.equal(alone.error, with_empty.error)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ball.xml", '<mujoco><worldbody><body pos="0 0 1"><joint/><geom size=".1"/></body></worldbody></mujoco>'),
        (
            "arm.urdf",
            """<robot name="arm"><link name="base"/><link name="arm"><inertial><mass value="1"/><origin xyz="0 0 .1"/>
            <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="elbow"
            type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint></robot>""",
        ),
    ],
)
def test_a_robot_without_actuators_is_checked(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    report = check(tmp_path / name, CheckSettings(states=2, steps=3))
    assert report.passed
    assert [row.name.split()[0] for row in report.inputs] == ["position", "velocity"]
    assert max(row.error for row in report.inputs) < 1e-5
    assert "control" not in report.table()


@pytest.fixture(scope="module")
def crate() -> GradientReport:
    return check(load_model(ROBOT), CRATE)


def test_a_custom_robot_passes(crate: GradientReport) -> None:
    assert crate.passed
    assert [row.name for row in crate.inputs][-2:] == ["velocity of elbow", "control of elbow"]
    assert [row.name for row in crate.outputs] == ["positions", "velocities"]
    assert crate.errors.shape == (len(crate.inputs), 2)
    assert np.nanmax(crate.errors) == max(row.error for row in crate.inputs) < 1e-5


def test_contacts_are_checked_where_they_touch(crate: GradientReport) -> None:
    [box] = crate.contacts
    assert box.name == "box on floor"
    assert box.touched is not None
    assert box.touched >= 2
    assert box.error < 1e-5


def test_a_contact_that_never_touches_is_not_seen() -> None:
    high = load_model(ROBOT.replace('pos="0 0 .3"', 'pos="0 0 9"'))
    report = check(high, replace(SMALL, states=2, steps=3))
    assert [row.verdict(1e-5) for row in report.contacts] == ["not seen"]
    assert math.isnan(report.contacts[0].error)
    assert report.passed
    assert "not seen in these states: box on floor" in report.table()


def blind(world: World, action: Action) -> Real:
    """A reward that hides its dependence on the state."""
    return stop_gradient(world.q[0]) + world.q[1]


def test_a_task_passes_term_by_term_and_a_wrong_custom_term_is_named() -> None:
    task = make_task("cartpole")
    mine = replace(task, name="mine", reward={**task.reward, "blind": blind})
    report = check(mine, SMALL)
    wrong = report.wrong
    assert not report.passed
    first = task.model.joints[0].name
    assert [row.name for row in wrong] == [f"position of {first}", "reward: blind"]
    assert wrong[0].where.startswith("reward: blind, state ")
    assert wrong[1].where.startswith(f"position of {first}, state ")
    assert wrong[0].error == pytest.approx(1.0, rel=1e-3)
    right = {row.name: row.error for row in report.outputs if row.name != "reward: blind"}
    assert set(right) == {
        "positions",
        "velocities",
        *(f"reward: {name}" for name in task.reward),
        *(f"observation: {name}" for name in task.observation),
    }
    assert max(right.values()) < 1e-6


def test_a_seed_repeats_a_check(crate: GradientReport) -> None:
    again = check(load_model(ROBOT), CRATE)
    assert np.array_equal(again.errors, crate.errors)


def test_activations_are_inputs_and_outputs() -> None:
    filtered = '<general name="elbow" joint="elbow" dyntype="filter" dynprm="0.05" ctrlrange="-2 2"/>'
    motor = '<motor name="elbow" joint="elbow" ctrlrange="-2 2"/>'
    report = check(load_model(ROBOT.replace(motor, filtered)), replace(SMALL, states=2, steps=12))
    assert report.passed
    assert [row.name for row in report.inputs][-2:] == ["control of elbow", "activation of elbow"]
    assert [row.name for row in report.outputs] == ["positions", "velocities", "activations"]
    assert np.isfinite(report.errors[-1]).all(), "derivatives by activations are compared"


@pytest.mark.parametrize("what", ["carpole", "robot.obj", "runs"])
def test_an_unknown_task_or_robot_is_refused(what: str) -> None:
    with pytest.raises(InputError, match=r"is neither a task nor a robot file \(\.xml, \.mjcf, \.urdf\); tasks: ho"):
        check(what)


def test_a_missing_robot_file_is_refused() -> None:
    with pytest.raises(InputError, match=r"no file 'no\.xml'; expected the MJCF or URDF file of a robot, or a task"):
        check("no.xml")


@pytest.mark.parametrize("invalid", [{"states": 0}, {"steps": 0}, {"tolerance": 0.0}, {"tolerance": 2.0}])
def test_invalid_settings_are_refused(invalid: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(invalid))):
        CheckSettings(**invalid)  # pyright: ignore[reportArgumentType]


def test_a_task_with_memory_random_parameters_and_two_observation_groups_is_checked() -> None:
    task = remembering_task(randomize={"body_mass:cart": uniform(0.5, 2.0, "scale")})
    report = check(task, SMALL)
    names = {row.name for row in report.outputs}
    assert {"observation: command", "critic observation: push", "reward: smoothness"} <= names
    assert report.passed


def test_a_task_with_memory_parameters_and_delays_passes() -> None:
    task = remembering_task(
        randomize={"body_mass:cart": uniform(0.5, 2.0, "scale"), "actuator_delay": uniform(0.01, 0.07)}
    )
    assert check(task, SMALL).passed
