"""The description of an exported policy: what each observed number is, and how the robot follows the policy."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ahac.deployment.observation import describe_components, describe_observation
from ahac.deployment.robot import control_ranges, describe_actuators, describe_joints, describe_root
from ahac.envs import ActionHistory, ObservationDelay, ObservationHistory, Task, make_task, noisy, observations, uniform
from ahac.envs.planning import observation_sizes
from ahac.sim import World
from support.deployed import BASE, walker


def numbers(task: Task, term: str) -> list[dict[str, Any]]:
    (found,) = [entry for entry in describe_observation(task) if entry["name"] == term]
    return found["numbers"]


def test_terms_have_the_order_and_sizes_of_the_observation() -> None:
    task = walker()
    terms = describe_observation(task)
    assert {term["name"]: term["size"] for term in terms} == observation_sizes(task)
    assert [term["start"] for term in terms] == [0, 3, 6, 18, 30, 42, 45]
    json.dumps([terms, describe_components(task)])


def test_numbers_of_a_robot_are_recognized_through_noise_scale_and_offset() -> None:
    task = walker()
    assert [n["label"] for n in numbers(task, "angular velocity")] == [f"base_ang_vel base {axis}" for axis in "xyz"]
    assert [n["label"] for n in numbers(task, "gravity")] == [f"projected_gravity base {axis}" for axis in "xyz"]
    joints = describe_joints(task)
    for n, joint in zip(numbers(task, "joint positions"), joints, strict=True):
        assert (n["quantity"], n["of"], n["scale"]) == ("joint_pos", joint["name"], 1.0)
        assert n["offset"] == pytest.approx(-joint["stance"])
        assert n["unit"] == "rad"
    assert {(n["quantity"], n["scale"]) for n in numbers(task, "joint velocities")} == {("joint_vel", 0.1)}
    actions = [n["of"] for n in numbers(task, "last action")]
    assert actions == [actuator["name"] for actuator in describe_actuators(task)]
    assert [n["part"] for n in numbers(task, "command")] == ["lin_vel_x", "lin_vel_y", "ang_vel_z"]
    clock = numbers(task, "clock")
    assert [n["quantity"] for n in clock] == ["sin_phase", "cos_phase"] * 4
    # The third foot is half a cycle behind the first: the same numbers with the other sign.
    assert [(n["part"], n["scale"]) for n in clock[::2]] == [(0, 1.0), (1, 1.0), (0, -1.0), (1, -1.0)]


def test_components_have_their_settings() -> None:
    found = describe_components(walker())
    assert found["command"]["type"] == "VelocityCommand"
    assert found["command"]["lin_vel_x"] == (0.2, 1.0)
    assert found["gait"] == {
        "type": "GaitClock",
        "frequency": 2.0,
        "offsets": (0.0, 0.3, 0.5, 0.8),
        "random_start": False,
        "name": "gait",
    }


def test_histories_and_delays_are_described_by_what_they_contain() -> None:
    task = walker()
    gravity = noisy(observations.projected_gravity(BASE), std=0.1)
    history = ObservationHistory(gravity, 3, 2, "gravity history")
    delay = ObservationDelay(observations.base_ang_vel(BASE), 3, 2, "late", history=2)
    actions = ActionHistory(12, steps=2)
    task = replace(
        task,
        memory={**task.memory, **history.memory, **delay.memory, **actions.memory},
        observation={"history": history.observation, "late": delay.observation, "actions": actions.observation},
    )
    labels = [(n["quantity"], n["part"], n["steps_ago"]) for n in numbers(task, "history")]
    assert labels == [("projected_gravity", axis, age) for age in (0, 1) for axis in "xyz"]
    assert [(n["quantity"], n["part"], n["steps_ago"]) for n in numbers(task, "late")] == [
        ("base_ang_vel", axis, age) for age in (0, 1) for axis in "xyz"
    ]
    names = [actuator["name"] for actuator in describe_actuators(task)]
    assert [(n["of"], n["steps_ago"]) for n in numbers(task, "actions")] == [(x, k) for k in (1, 2) for x in names]
    assert describe_components(task)["late"]["steps"] == 2


def test_numbers_that_nobody_knows_have_term_and_index() -> None:
    def mixed(world: World, action: Any) -> list[Any]:  # noqa: ANN401 - traced scalars
        return [world.q[7] * world.q[8], 0.25]

    task = replace(
        walker(),
        observation={"mixed": mixed, "masses": observations.parameters("*")},
        randomize={"body_mass:base": uniform(0.9, 1.1, "scale")},
    )
    unknown, constant = numbers(task, "mixed")
    assert unknown == {"label": "mixed[0]", "quantity": None}
    assert (constant["quantity"], constant["offset"]) == ("constant", 0.25)
    assert numbers(task, "masses") == [{"label": "masses[0]", "quantity": None}]


@pytest.mark.parametrize("name", ["hopper", "ant", "humanoid", "snu_humanoid", "cartpole", "double_pendulum"])
def test_all_numbers_of_bundled_tasks_are_known(name: str) -> None:
    task = make_task(name)
    labels = [n["quantity"] for term in describe_observation(task) for n in term["numbers"]]
    assert len(labels) == sum(observation_sizes(task).values())
    assert None not in labels


def test_actuators_have_stance_scale_gains_limits_and_units() -> None:
    task = walker()
    actuators, stance = describe_actuators(task), {joint["name"]: joint["stance"] for joint in describe_joints(task)}
    assert len(actuators) == 12
    for actuator in actuators:
        assert actuator["kind"] == "position"
        assert actuator["middle"] == pytest.approx(stance[actuator["joint"]])
        assert actuator["scale"] == pytest.approx(0.3 if actuator["joint"].endswith("HAA") else 0.5)
        assert (actuator["kp"], actuator["kd"], actuator["force_range"]) == (100.0, 3.0, [-80.0, 80.0])
        assert (actuator["control_unit"], actuator["force_unit"]) == ("rad", "N m")
    root = describe_root(task)
    assert root is not None
    assert root["body"] == BASE


def test_randomized_gains_do_not_change_the_description() -> None:
    task = walker()
    randomized = replace(task, randomize={"actuator_gain:*": uniform(0.8, 1.2, "scale")})
    assert describe_actuators(randomized) == describe_actuators(task)


def test_motors_have_a_gear_and_no_gains() -> None:
    motor = describe_actuators(make_task("hopper"))[0]
    assert (motor["kind"], motor["gear"], motor["gain"]) == ("motor", 200.0, 1.0)
    assert (motor["kp"], motor["kd"], motor["control_unit"]) == (None, None, None)
    assert describe_root(make_task("hopper")) is None


def test_controls_of_a_task_with_its_own_control_function_are_unknown() -> None:
    task = walker()
    assert control_ranges(task) is not None, "a delay changes when actions act, not what they mean"
    assert control_ranges(replace(task, control=lambda world, action: [0.5 * a for a in action])) is None
