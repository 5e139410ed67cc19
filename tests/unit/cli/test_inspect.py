"""`ahac inspect`: text, JSON, pictures and errors."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ahac import envs
from ahac.cli.main import main
from ahac.sim import load_model
from ahac.sim.inspection import inspect_model

ROBOT = """<mujoco model="leg">
<compiler angle="radian"/>
<worldbody>
  <body name="trunk" pos="0 0 1"><freejoint name="root"/><geom name="belly" type="box" size=".1 .1 .1" mass="3"/>
    <body name="shin" pos="0 0 -.1">
      <joint name="knee" axis="0 1 0" range="-1 1" damping="0.2" armature="0.01" frictionloss="0.3"/>
      <geom name="foot" type="capsule" fromto="0 0 0 .1 0 -.3" size=".04" mass="0.5"/></body></body>
</worldbody>
<actuator><position name="servo" joint="knee" kp="20" kv="2" gear="3" ctrlrange="-1 1"/></actuator>
</mujoco>"""


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    path = tmp_path / "leg.xml"
    path.write_text(ROBOT, encoding="utf-8")
    return path


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["inspect", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def row(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return line.split()


def test_text_shows_joints_actuators_contact_and_stability(robot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, robot)
    assert "leg: 3.5 kg in 2 links, nq = 8, nv = 7, 1 actuators, 10 contact points, 1 plane" in text
    assert row(text, "root")[:3] == ["root", "free", "-"]
    knee = row(text, "knee")
    assert knee[:5] == ["knee", "hinge", "-1", "to", "1"]
    assert knee[6:] == ["0.01", "0.2", "-", "0.3", "180", "18"]
    assert row(text, "servo")[:4] == ["servo", "servo", "knee", "20"]
    assert row(text, "foot")[:4] == ["foot", "shin", "ground", "2"]
    assert "stability (implicit): stable with substeps of 16.7 ms / 4" in text
    assert "approximated or dropped:" in text


def test_numbers_include_the_strength_of_actuators(robot: Path) -> None:
    model = load_model(robot)
    halved = model.parameters("actuator_strength:*").apply(model, [0.5])
    report = inspect_model(halved, dt=0.01, substeps=2)
    joint, actuator = report.joints[1], report.actuators[0]
    assert (joint.kp, joint.kv) == (90.0, 9.0)
    assert (actuator.gain, actuator.bias) == (10.0, (0.0, -10.0, -1.0))


def test_json_has_the_same_content(robot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(shown(capsys, robot, "--json", "--integrator", "explicit"))
    assert [joint["type"] for joint in report["joints"]] == ["free", "hinge"]
    assert report["joints"][1]["range"] == [-1.0, 1.0]
    assert [(c["geom"], c["points"]) for c in report["contacts"]] == [("belly", 8), ("foot", 2)]
    assert report["links"][1] == {"name": "shin", "parent": "trunk", "mass": 0.5}
    assert report["cost"]["backward_operations"] > report["cost"]["forward_operations"] > 0
    stability = report["stability"]
    assert not stability["stable"]
    assert stability["substeps"] > 4
    assert stability["message"].endswith(f"use at least {stability['substeps']} substeps")


def test_options_change_the_robot_and_the_step(robot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(shown(capsys, robot, "--json", "--no-ground", "--dt", "0.02", "--substeps", "2"))
    assert (report["dt"], report["substeps"], report["contacts"], report["planes"]) == (0.02, 2, [], [])
    assert report["joints"][1]["frictionloss"] == 0.3


def test_task_is_shown_with_its_own_step(capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(shown(capsys, "hopper", "--json"))
    assert (report["integrator"], report["substeps"]) == ("explicit", 16)
    assert report["stability"]["stable"]


def test_image_is_written(robot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "leg.svg"
    shown(capsys, robot, "--image", path)
    assert "10 contact points" in path.read_text(encoding="utf-8")


@pytest.mark.extended
def test_speed_is_measured(robot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured = json.loads(shown(capsys, robot, "--json", "--measure"))["measured"]
    assert measured["forward_steps_per_second"] > measured["steps_per_second"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["hoper"],
            "'hoper' is not a robot file (.xml, .mjcf, .urdf) or task (did you mean hopper?); tasks: hopper, ant",
        ),
        (["missing.xml"], "no file 'missing.xml'"),
        (["hopper", "--image", "leg.jpg"], "a figure must be a .png or .svg file, got 'leg.jpg'"),
        (["hopper", "--substeps", "0"], "substeps must be"),
        (["hopper", "--dt", "0"], "dt must be more than 0 seconds, got 0"),
    ],
)
def test_wrong_input_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", *words]) == 2
    assert message in capsys.readouterr().err


def test_errors_in_the_functions_of_a_task_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = """
from dataclasses import replace
from ahac.envs import make_task
task = replace(make_task("cartpole"), reward={"height": lambda world, action: max(world.q[0], 0.0)})
"""
    (tmp_path / "broken.py").write_text(code, encoding="utf-8")
    assert main(["inspect", f"{tmp_path}/broken.py:task"]) == 2
    assert "reward 'height': a traced comparison has no truth value" in capsys.readouterr().err


def test_a_task_shows_what_it_randomizes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    task = replace(envs.make_task("cartpole"), randomize={"gravity": envs.uniform(0.9, 1.1, "scale")})
    assert "randomized" not in shown(capsys, "cartpole")
    monkeypatch.setattr(envs, "make_task", lambda name: task)
    line = "gravity: × uniform(0.9, 1.1), (0, 0, -10.79) to (0, 0, -8.829) m/s² (model: (0, 0, -9.81))"
    assert shown(capsys, "cartpole").splitlines()[-2:] == ["randomized in each episode:", f"  {line}"]
    assert json.loads(shown(capsys, "cartpole", "--json"))["randomized"] == [line]
