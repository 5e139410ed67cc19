"""Files and texts that are no robot, and numbers that no simulation survives."""

import os
from pathlib import Path

import pytest

from ahac.sim import ModelError, load_model
from support.robots import PENDULUM, mjcf

HINGE = (
    '<body><joint name="j" axis="0 1 0" {joint}/><geom type="sphere" size="0.1" mass="{mass}" pos="0.2 0 0"/></body>'
)

DIFFERENTIAL = '<tendon><fixed name="t"><joint joint="j" coef="inf"/></fixed></tendon>'


def hinge(joint: str = "", mass: str = "1", rest: str = "", option: str = "") -> str:
    return mjcf(HINGE.format(joint=joint, mass=mass), rest=rest, option=option)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "empty string; expected the path"),
        (" \n\t", "empty string; expected the path"),
        ("robot.xml", "no file 'robot.xml'; expected the path of an MJCF or URDF file, or its XML text"),
        ("hello", "no file 'hello'"),
        (os.fspath(Path(__file__).parent), "no file "),
        ("<mujoco><worldbody>", "cannot compile .*XML parse error"),
        ("<html></html>", "cannot compile .*html"),
        ("<mujoco/>", "has no joints"),
        (
            mjcf('<body><geom size="0.1"/></body>'),
            "has no joints: nothing in it can move; add joints, or load with floating=True",
        ),
        (mjcf("<body><joint/></body>"), "cannot compile .*mass"),
        ("<mujoco>" + " " * 500, r"cannot compile this model \(<mujoco> {192} \.\.\."),
    ],
)
def test_what_is_no_robot_is_refused(source: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(source)


REFERENCES = {
    "mesh": '<asset><mesh name="m" file="{}"/></asset>',
    "mesh in a folder": '<compiler meshdir="{folder}"/><asset><mesh name="m" file="pipe.obj"/></asset>',
    "texture": '<asset><texture type="2d" file="{}"/></asset>',
    "side of a cube": '<asset><texture type="cube" fileright="{}"/></asset>',
    "height field": '<asset><hfield size="1 1 1 1" file="{}"/></asset>',
    "skin": '<asset><skin file="{}"/></asset>',
    "include": '<include file="{}"/>',
    "model": '<asset><model name="m" file="{}"/></asset>',
}


@pytest.mark.parametrize("kind", REFERENCES)
def test_a_pipe_is_refused_instead_of_waited_for(kind: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.obj"
    os.mkfifo(pipe)
    source = mjcf(HINGE.format(joint="", mass=1), rest=REFERENCES[kind].format(pipe, folder=tmp_path))
    keeper = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)  # so that nobody who opens it has to wait
    try:
        with pytest.raises(ModelError, match=r"refers to '.*pipe\.obj', which is a pipe, .*; expected a regular file"):
            load_model(source)
    finally:
        os.close(keeper)


def test_a_pipe_beside_the_file_of_a_robot_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "part.xml")
    (tmp_path / "robot.xml").write_text(mjcf(HINGE.format(joint="", mass=1), rest='<include file="part.xml"/>'))
    with pytest.raises(ModelError, match=r"part\.xml', which is a pipe"):
        load_model(tmp_path / "robot.xml")


BALL = '<body><joint/><geom size="0.1"/></body>'


@pytest.mark.parametrize(
    ("bodies", "copies"),
    [
        (f'<replicate count="1000000" offset="1 0 0">{BALL}</replicate>', 1000000),
        (f'<replicate count="1000"><replicate offset="1 0 0" count = "1000">{BALL}</replicate></replicate>', 1001000),
        (f'<replicate count="3000">{BALL}</replicate><replicate count="3000">{BALL}</replicate>', 6000),
        ('<body><composite type="cable" count="1000000 1 1"><geom size=".1"/></composite></body>', 1000000),
        ('<body><flexcomp name="f" type="grid" count="1000 1000 10"/></body>', 10000000),
    ],
)
def test_too_many_copies_are_refused_instead_of_waited_for(bodies: str, copies: int) -> None:
    with pytest.raises(ModelError, match=f"requests {copies} copies .*at most 4000 can be loaded: lower their counts"):
        load_model(mjcf(bodies))


def test_copies_inside_an_included_file_count_as_often_as_it_is_copied() -> None:
    part = f'<mujoco><replicate count="100" offset="1 0 0">{BALL}</replicate></mujoco>'
    source = mjcf('<replicate count="100"><include file="part.xml"/></replicate>')
    with pytest.raises(ModelError, match="requests 10100 copies"):
        load_model(source, assets={"part.xml": part.encode()})


def test_some_copies_are_loaded_and_comments_do_not_count() -> None:
    fingers = f'<!-- <replicate count="9999"> --><replicate count="3" euler="0 0 60">{BALL}</replicate>'
    assert load_model(mjcf(fingers)).nv == 3


def test_long_text_that_is_no_xml_is_refused() -> None:
    with pytest.raises(ModelError, match="no file"):
        load_model("robot " * 1000)


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF\x02\x01\x01\x00\x00", bytes(range(256)), b"hello", PENDULUM.encode("utf-16")]
)
def test_file_that_is_no_xml_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "robot.xml"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"cannot compile this model .*robot\.xml"):
        load_model(path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (hinge('damping="nan"'), "non-finite dof damping: nan"),
        (hinge('damping="inf"'), "non-finite dof damping: inf"),
        (hinge('pos="0 nan 0"'), "non-finite jnt pos: nan"),
        (hinge('range="-inf 1" limited="true"'), "non-finite jnt range: -inf"),
        (hinge('damping="-1"'), "negative dof damping: -1.0"),
        (hinge('armature="-2"'), "negative dof armature: -2.0"),
        (hinge('stiffness="-3"'), "negative jnt stiffness: -3.0"),
        (hinge(mass="-1"), "cannot compile"),
        (hinge(mass="0"), "cannot compile"),
        (hinge('range="1 -1" limited="true"'), "cannot compile"),
        (hinge(rest='<actuator><motor joint="j" gear="nan"/></actuator>'), "non-finite actuator gear"),
        (hinge(option='gravity="0 0 nan"'), "non-finite gravity: nan"),
        (
            mjcf('<body><joint/><inertial mass="inf" pos="0 0 0" diaginertia="1 1 1"/></body>'),
            "non-finite body mass: inf",
        ),
    ],
)
def test_numbers_no_simulation_survives_are_refused(source: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(source)


@pytest.mark.parametrize(
    "source",
    [
        hinge(option='density="1" wind="nan 0 0"'),
        hinge(option='viscosity="inf"'),
        hinge(option='density="-1"'),
        hinge('actuatorfrcrange="-inf 1" actuatorfrclimited="true"'),
        hinge(rest='<keyframe><key qpos="nan"/></keyframe>'),
        hinge(rest='<keyframe><key qvel="inf"/></keyframe>'),
        hinge(rest=f"{DIFFERENTIAL}<actuator><motor tendon='t'/></actuator>"),
    ],
    ids=[
        "wind",
        "viscosity",
        "density",
        "joint force range",
        "keyframe position",
        "keyframe velocity",
        "tendon coefficient",
    ],
)
def test_other_numbers_no_simulation_survives_are_refused(source: str) -> None:
    with pytest.raises(ModelError, match=r"non-finite|negative"):
        load_model(source)
