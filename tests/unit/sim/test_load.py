"""Reading robots: from paths and texts, MJCF and URDF, to records."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ahac.sim import Keyframe, ModelError, Motor, Servo, Simulator, load_model
from support.mujoco_oracle import compiled
from support.robots import (
    FREE_SPHERE,
    NESTED,
    PENDULUM,
    SERVO_ARM,
    SMALL_ROBOTS,
    TETRAHEDRON,
    URDF_ARM,
    gymnasium_file,
    mjcf,
)


def hinge(joint: str = "", rest: str = "") -> str:
    return mjcf(f'<body><joint axis="0 1 0" {joint}/><geom type="sphere" size="0.1" pos="0.2 0 0"/></body>', rest=rest)


@pytest.mark.parametrize("name", SMALL_ROBOTS)
def test_file_and_its_text_are_the_same_model(name: str, tmp_path: Path) -> None:
    text = SMALL_ROBOTS[name]
    path = tmp_path / "robot.xml"
    path.write_text(text, encoding="utf-8")
    assert load_model(path) == load_model(str(path))
    assert replace(load_model(path), name="") == replace(load_model(text), name="")


def test_text_may_begin_with_a_declaration_and_a_comment() -> None:
    assert load_model(f"\n<?xml version='1.0'?>\n<!-- a pendulum -->\n{PENDULUM}") == load_model(PENDULUM)


def test_urdf_keeps_fixed_links_as_bodies_on_the_links_they_ride_on() -> None:
    model = load_model(URDF_ARM)
    assert [link.name for link in model.links] == ["upper", "hand"]
    assert [(joint.name, joint.kind.value, joint.range) for joint in model.joints] == [
        ("waist", "hinge", (-2.0, 2.0)),
        ("rail", "slide", (-0.1, 0.3)),
    ]
    assert model.bodies["bracket"].link == 0
    assert model.links[0].mass == pytest.approx(1.7)
    assert model.damping == (0.3, 0.0)


def test_bodies_without_joints_are_merged_and_kept_by_name() -> None:
    model = load_model(NESTED)
    assert [link.name for link in model.links] == ["link", "finger"]
    assert {name: frame.link for name, frame in model.bodies.items()} == {
        "world": -1,
        "stand": -1,
        "post": -1,
        "link": 0,
        "sleeve": 0,
        "glove": 0,
        "finger": 1,
        "nail": 1,
    }
    assert model.sites["palm"].link == 0
    assert [link.mass for link in model.links] == pytest.approx([0.7, 0.11])


def test_free_joint_is_three_slides_and_a_ball() -> None:
    model = load_model(FREE_SPHERE)
    kinds = [(joint.name, joint.kind.value, joint.q, joint.v) for joint in model.joints]
    assert kinds == [
        ("root:x", "slide", 0, 0),
        ("root:y", "slide", 1, 1),
        ("root:z", "slide", 2, 2),
        ("root", "ball", 3, 3),
    ]
    assert model.rest_q == (0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0)


def test_file_can_switch_parts_of_the_physics_off() -> None:
    flags = {"gravity": "disable", "damper": "disable", "spring": "disable", "limit": "disable", "contact": "disable"}
    switched = "".join(f'{name}="{value}" ' for name, value in flags.items())
    option = f"<option><flag {switched}/></option></mujoco>"
    arm = load_model(SERVO_ARM.replace("</mujoco>", option))
    assert arm.gravity == (0.0, 0.0, 0.0)
    assert arm.damping == (0.0, 0.0)
    assert [joint.range for joint in arm.joints] == [None, None]
    assert load_model(FREE_SPHERE.replace("</mujoco>", option)).contact_candidates == ()
    assert load_model(hinge('stiffness="5"', rest=option.removesuffix("</mujoco>"))).joints[0].stiffness == 0.0


def test_keyframes_are_read_by_name_or_number() -> None:
    keys = '<keyframe><key name="up" qpos="3.1" qvel="0.5"/><key qpos="1"/></keyframe>'
    model = load_model(hinge(rest=keys))
    assert model.keyframes == {"up": Keyframe(q=(3.1,), v=(0.5,)), "key#1": Keyframe(q=(1.0,), v=(0.0,))}


def test_keyframes_keep_controls_and_activations() -> None:
    actuators = '<actuator><position joint="j" kp="5"/><motor joint="j"/></actuator>'
    keys = '<keyframe><key name="home" qpos="0.5" ctrl="0.4 2"/></keyframe>'
    model = load_model(hinge('name="j"', rest=actuators + keys))
    assert model.keyframes["home"] == Keyframe(q=(0.5,), v=(0.0,), ctrl=(0.4, 2.0), act=())
    controls = Simulator(model, num_worlds=3, dt=0.01, substeps=1, dtype=torch.float64).keyframe_control("home")
    assert controls.tolist() == [[0.4, 2.0]] * 3


def test_motors_in_place_of_the_files_actuators_have_no_controls_in_keyframes() -> None:
    servo = '<actuator><position joint="j" kp="5"/></actuator><keyframe><key name="home" qpos="1" ctrl="1"/></keyframe>'
    model = load_model(hinge('name="j"', rest=servo), motors={"j": Motor(strength=2.0)})
    assert model.keyframes["home"] == Keyframe(q=(1.0,), v=(0.0,), ctrl=(0.0,))


def test_servos_in_place_of_the_files_actuators_hold_the_joints_of_keyframes() -> None:
    keys = '<keyframe><key name="near" qpos="0.3"/><key name="far" qpos="1"/></keyframe>'
    servo = Servo(stiffness=5.0, damping=0.1, stance=0.2, reach=0.4)
    model = load_model(hinge('name="j"', rest=keys), motors={"j": servo})
    assert [keyframe.ctrl for keyframe in model.keyframes.values()] == [(0.3,), (pytest.approx(0.6),)]


def test_text_can_refer_to_assets() -> None:
    part = f"<mujoco>{TETRAHEDRON}</mujoco>"
    body = '<body><freejoint/><geom type="mesh" mesh="tetrahedron" mass="1"/></body>'
    rock = f'<include file="part.xml"/><worldbody>{body}</worldbody>'
    model = load_model(f"<mujoco>{rock}</mujoco>", assets={"part.xml": part.encode()}, ground=True)
    assert len(model.contact_candidates) == 4
    with pytest.raises(ModelError, match=r"part\.xml"):
        load_model(f"<mujoco>{rock}</mujoco>")


def test_links_carry_all_the_mass_that_moves() -> None:
    model = load_model(gymnasium_file("ant"))
    theirs = compiled(gymnasium_file("ant"))
    assert (model.name, model.nq, model.nv, model.nu, len(model.links)) == ("ant", 15, 14, 8, 9)
    assert len(model.bodies) == theirs.nbody > 10
    assert sum(link.mass for link in model.links) == pytest.approx(theirs.body_mass.sum())
