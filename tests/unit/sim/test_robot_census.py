"""The census of public robots: its evaluator, what it finds in a file, and its tables."""

import json
from pathlib import Path

import numpy as np
import pytest

from ahac.sim import load_model
from ahac.sim.compiler.program import adjoint, evaluate
from ahac.sim.constants import with_constants
from ahac.sim.physics.contact import compliant
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs
from robots import probe
from robots.packages import find_robots
from robots.report import read_csv, tables, write_csv
from robots.straight_line import Evaluator
from support.robots import FREE_SPHERE, PENDULUM, ROVER, SERVO_ARM


@pytest.mark.parametrize("text", [SERVO_ARM, FREE_SPHERE, ROVER])
def test_straight_line_code_computes_what_numpy_does(text: str) -> None:
    model = with_constants(load_model(text), implicit=True)
    program = Programs(model, ForceLaws(compliant, implicit=True), {}).step().substep
    rng = np.random.default_rng(0)
    values = {name: rng.normal(size=len(group)) for name, group in program.inputs.items()}
    values["h"] = np.array([0.01])
    back = adjoint(program, ["q", "v"])
    values |= {name: rng.normal(size=len(back.inputs[name])) for name in ("q_bar", "v_bar")}
    for one in (program, back):
        found, expected = Evaluator(one)({k: v.tolist() for k, v in values.items()}), evaluate(one, values)
        for name, numbers in expected.items():
            assert found[name] == pytest.approx(numbers.tolist(), rel=1e-12)


def test_overflow_is_an_error() -> None:
    model = with_constants(load_model(PENDULUM), implicit=False)
    program = Programs(model, ForceLaws(), {}).step().substep
    with pytest.raises(FloatingPointError):
        Evaluator(program)({"q": [0.0], "v": [1e300], "u": [], "f": [1e308], "h": [1e300]})


def findings(path: Path, capsys: pytest.CaptureFixture[str], implicit: bool = True) -> dict[str, object]:
    assert probe.main(path, path.parent, implicit) == 0
    found: dict[str, object] = {}
    for line in capsys.readouterr().out.splitlines():
        found |= json.loads(line)
    return found


def test_probe_judges_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(SERVO_ARM, encoding="utf-8")
    found = findings(path, capsys)
    assert (found["mujoco"], found["articulated"], found["loaded"]) == ("yes", True, True)
    assert float(str(found["acceleration_error"])) < 1e-10
    assert [found[f"{name}_stable"] for name in ("linear", "free", "contact")] == [True] * 3
    assert 0.0 < float(str(found["gradient"])) < 1e6


def test_probe_finds_an_unstable_robot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "damped.xml"
    path.write_text(PENDULUM.replace('axis="0 1 0"', 'axis="0 1 0" damping="1000"'), encoding="utf-8")
    assert findings(path, capsys, implicit=True)["free_stable"]
    found = findings(path, capsys, implicit=False)
    assert not found["free_stable"]
    assert (found["linear_stable"], found["unstable"]) == (False, "joint 'swing'")
    assert found["gradient"] == float("inf")


def test_probe_lists_everything_that_refuses_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "soft.xml"
    text = PENDULUM.replace('mass="1"', 'mass="1" fluidshape="ellipsoid"')
    path.write_text(text, encoding="utf-8")
    found = findings(path, capsys)
    assert (found["articulated"], found["loaded"], found["ignorable"]) == (True, False, True)
    assert found["features"] == ["fluid_shape"]
    actuator = '<actuator><general joint="swing" gaintype="user"/></actuator>'
    path.write_text(text.replace("</mujoco>", f"{actuator}</mujoco>"), encoding="utf-8")
    found = findings(path, capsys)
    assert found["features"] == ["fluid_shape", "user-defined actuator"]
    assert not found["ignorable"]


def test_probe_keeps_the_error_of_mujoco(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "massless.xml"
    path.write_text("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>", encoding="utf-8")
    found = findings(path, capsys)
    assert found["mujoco"] == "no"
    assert "mass and inertia" in str(found["mujoco_error"])


def test_fragments_are_not_robots(tmp_path: Path) -> None:
    (tmp_path / "robot.xml").write_text(f"<!-- a <robot> -->{PENDULUM}", encoding="utf-8")
    (tmp_path / "part.xml").write_text("<mujocoinclude/>", encoding="utf-8")
    (tmp_path / "package.xml").write_text("<package/>", encoding="utf-8")
    (tmp_path / "arm.urdf").write_text('<?xml version="1.0"?><robot name="arm"/>', encoding="utf-8")
    found = {robot.file: kind for robot, kind in find_robots("brax", tmp_path)}
    assert found == {"robot.xml": "mjcf", "arm.urdf": "urdf"}


def test_tables_count_the_rows_of_the_csv(tmp_path: Path) -> None:
    common = {"package": "brax", "version": "1.0", "kind": "mjcf"}
    good = {
        "articulated": True,
        "loaded": True,
        "acceleration_error": 1e-12,
        "linear_stable": True,
        "free_stable": True,
    }
    findings = [
        {**common, **good, "file": "good.xml", "contact_stable": True, "gradient": 3.0},
        {**common, **good, "file": "wild.xml", "contact_stable": False, "gradient": float("inf")},
        {**common, "file": "soft.xml", "articulated": True, "loaded": False, "ignorable": True, "features": ["flex"]},
        {**common, "file": "bad.xml", "articulated": True, "problem": "crash: signal 11"},
        {**common, "file": "wall.xml", "articulated": False},
    ]
    write_csv(tmp_path / "robots.csv", findings)
    lines = tables(read_csv(tmp_path / "robots.csv")).splitlines()
    assert "| brax 1.0 | 5 | 4 | 2 | 1 | 1 | 2 | 1 | 1 | 1 |" in lines
    assert "| flex | 1 | 1 |" in lines
