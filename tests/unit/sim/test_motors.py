# pyright: reportAttributeAccessIssue=false
"""Motors that a caller gives a robot: which joints they drive, what they add, and what is refused."""

import math
from dataclasses import replace
from typing import Any

import mujoco
import numpy as np
import pytest

from ahac.sim import ModelError, Motor, Servo, load_model
from support.robots import BALL_CHAIN, ROVER, SERVO_ARM, URDF_ARM, gymnasium_file, mjcf

MOTOR = Motor(strength=7.0, armature=0.5, damping=0.25)

CRANE = """
<body name="cart"><joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1"/>
  <body name="upper"><joint name="shoulder" axis="0 1 0" damping="0.2" armature="0.01"/><geom size="0.1" pos="0 0 -1"/>
    <body name="lower" pos="0 0 -1"><joint axis="0 1 0"/><geom size="0.1" pos="0 0 -1"/></body></body></body>
"""
"""A root on a rail, a shoulder with damping and armature of its own, and a joint without a name."""


def driven(source: str, motors: Motor | dict[str, Motor], **options: Any) -> dict[str, float]:  # noqa: ANN401
    """Strength by the name of the joint."""
    model = load_model(source, motors=motors, **options)
    joints = {joint.v: joint.name for joint in model.joints}
    assert [actuator.name for actuator in model.actuators] == [joints[a.dofs[0][0]] for a in model.actuators]
    assert all(actuator.control_range == (-1.0, 1.0) for actuator in model.actuators)
    assert all(len(a.dofs) == 1 and a.gain == 1.0 and a.bias == (0.0, 0.0, 0.0) for a in model.actuators)
    return {actuator.name: actuator.dofs[0][1] for actuator in model.actuators}


def test_one_motor_drives_every_joint_but_the_roots() -> None:
    assert driven(mjcf(CRANE), MOTOR) == {"shoulder": 7.0, "joint#2": 7.0}
    assert driven(ROVER, MOTOR) == {"shoulder": 7.0}
    walker = driven(str(gymnasium_file("walker2d")), MOTOR)
    assert list(walker) == [f"{name}{side}_joint" for side in ("", "_left") for name in ("thigh", "leg", "foot")]


def test_one_motor_drives_all_joints_of_a_urdf_floating_or_not() -> None:
    assert driven(URDF_ARM, MOTOR) == driven(URDF_ARM, MOTOR, floating=True) == {"waist": 7.0, "rail": 7.0}


def test_motors_by_name_and_by_pattern_drive_those_joints_in_the_files_order() -> None:
    weak = Motor(strength=2.0)
    assert driven(mjcf(CRANE), {"shoulder": weak}) == {"shoulder": 2.0}
    assert driven(mjcf(CRANE), {"joint#2": weak, "shoulder": MOTOR}) == {"shoulder": 7.0, "joint#2": 2.0}
    assert driven(mjcf(CRANE), {"r*": weak}) == {"rail": 2.0}, "a root may be asked for by name"
    assert driven(mjcf(CRANE), {"*": weak}) == {"rail": 2.0, "shoulder": 2.0, "joint#2": 2.0}
    walker = driven(str(gymnasium_file("walker2d")), {"*_left_*": MOTOR, "th?gh_joint": weak})
    assert walker == {"thigh_joint": 2.0, "thigh_left_joint": 7.0, "leg_left_joint": 7.0, "foot_left_joint": 7.0}


def test_patterns_find_hinges_and_slides_only() -> None:
    assert driven(ROVER, {"*": MOTOR}) == {"shoulder": 7.0}
    assert load_model(BALL_CHAIN, motors={"*": MOTOR}).nu == 1


def test_motors_replace_the_files_actuators() -> None:
    assert [actuator.name for actuator in load_model(SERVO_ARM).actuators] == ["place", "speed", "push"]
    assert driven(SERVO_ARM, {"elbow": MOTOR}) == {"elbow": 7.0}
    assert load_model(SERVO_ARM, motors={}).nu == 0


def test_bounds_on_a_joints_actuation_stay() -> None:
    elbow = load_model(SERVO_ARM, motors={"elbow": MOTOR}).joints[1]
    assert elbow.force_range == (-4.0, 5.0)


def test_armature_and_damping_are_added_to_the_files() -> None:
    before = load_model(mjcf(CRANE))
    after = load_model(mjcf(CRANE), motors=MOTOR)
    assert before.armature == (0.0, 0.01, 0.0)
    assert after.armature == pytest.approx((0.0, 0.51, 0.5))
    assert before.damping == (0.0, 0.2, 0.0)
    assert after.damping == pytest.approx((0.0, 0.45, 0.25))


def test_motors_make_what_mujoco_compiles_from_the_same_words() -> None:
    words = CRANE.replace('damping="0.2" armature="0.01"', 'damping="0.45" armature="0.51"')
    words = words.replace('<joint axis="0 1 0"/>', '<joint name="joint#2" axis="0 1 0" damping="0.25" armature="0.5"/>')
    motors = "".join(
        f'<motor name="{name}" joint="{name}" gear="7" ctrlrange="-1 1" ctrllimited="true"/>'
        for name in ("shoulder", "joint#2")
    )
    text = mjcf(words, rest=f"<actuator>{motors}</actuator>")
    assert load_model(mjcf(CRANE), motors=MOTOR) == load_model(text)
    raw = mujoco.MjModel.from_xml_string(text)
    ours = load_model(mjcf(CRANE), motors=MOTOR)
    assert np.allclose(raw.dof_armature, ours.armature)
    assert np.allclose(raw.dof_damping, ours.damping)
    assert [a.dofs[0][1] for a in ours.actuators] == raw.actuator_gear[:, 0].tolist()


def test_default_classes_of_joints_count() -> None:
    text = mjcf(CRANE).replace("<default>", '<default><joint damping="3" armature="0.1"/>')
    model = load_model(text, motors=MOTOR)
    assert model.damping == pytest.approx((3.0, 0.45, 3.25)), "what a joint says itself counts first"
    assert model.armature == pytest.approx((0.1, 0.51, 0.6))


@pytest.mark.parametrize(
    "default",
    [
        '<motor gear="5" ctrlrange="-3 3" forcerange="-1 1"/>',
        '<position kp="50" kv="3"/>',
        '<muscle force="10"/>',
        '<general biastype="affine" gainprm="40" biasprm="0 -40 -1" dyntype="filter" dynprm="0.1"/>',
    ],
)
def test_default_classes_of_actuators_do_not_count(default: str) -> None:
    """A motor is what its caller says, whatever kind of actuator the file has in mind for its own."""
    text = mjcf(CRANE).replace("<default>", f"<default>{default}")
    assert load_model(text, motors=MOTOR).actuators == load_model(mjcf(CRANE), motors=MOTOR).actuators


SERVO = '<actuator><position name="servo" joint="shoulder" kp="3"/></actuator>'


def test_keyframes_with_controls_of_the_files_actuators_are_kept() -> None:
    key = '<keyframe><key name="home" qpos="1 2 3" ctrl="0.3"/></keyframe>'
    assert load_model(mjcf(CRANE, rest=SERVO + key), motors=MOTOR).keyframes["home"].q == (1.0, 2.0, 3.0)


def test_sensors_of_the_files_actuators_go_with_them() -> None:
    sensor = '<sensor><actuatorfrc actuator="servo"/></sensor>'
    assert load_model(mjcf(CRANE, rest=SERVO + sensor), motors=MOTOR).nu == 2


def test_a_specification_is_left_as_it_was() -> None:
    spec = mujoco.MjSpec.from_string(SERVO_ARM)
    load_model(spec, motors=MOTOR)
    assert replace(load_model(spec), name="") == replace(load_model(SERVO_ARM), name="")


@pytest.mark.parametrize(
    ("motors", "message"),
    [
        ({"wrist": MOTOR}, "no hinge or slide is named 'wrist'; the model has: shoulder, elbow"),
        ({"s*": MOTOR, "knee_*": MOTOR}, "no hinge or slide is named 'knee_\\*'"),
        ({"s*": MOTOR, "*er": MOTOR}, "several motors match shoulder: each joint must match a single name"),
        ([MOTOR], "motors must be a Motor or Servo, or map joint names to Motors and Servos, got \\[Motor"),
        ({"elbow": 7.0}, "motors must be a Motor or Servo, or map .* got {'elbow': 7.0}"),
        (7.0, "motors must be a Motor or Servo, or map .* got 7.0"),
    ],
)
def test_motors_that_make_no_sense_are_refused(motors: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(ModelError, match=message):
        load_model(SERVO_ARM, motors=motors)


@pytest.mark.parametrize("field", ["strength", "armature", "damping"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "3"])
def test_numbers_of_a_motor_are_finite_and_at_least_zero(field: str, value: Any) -> None:  # noqa: ANN401
    with pytest.raises(ModelError, match=f"Motor.{field} must be a finite, non-negative number, got {value!r}"):
        Motor(**{"strength": 1.0, field: value})


def test_a_motor_that_drives_nothing_is_refused() -> None:
    alone = mjcf('<body name="bob"><joint name="swing" axis="0 1 0"/><geom size="0.1" pos="0 0 -1"/></body>')
    assert driven(alone, {"swing": MOTOR}) == {"swing": 7.0}
    with pytest.raises(ModelError, match="swing"):
        load_model(alone, motors=MOTOR)


SERVO_FILE = """
<mujoco><compiler angle="{angle}"/><worldbody><body><joint name="hip" range="{low} {high}"/><geom size=".1"/>
  <body pos="0 0 .2"><joint name="knee" range="{low} {high}"/><geom size=".1"/>
    <body pos="0 0 .2"><joint name="slider" type="slide"/><geom size=".1"/></body></body></body></worldbody></mujoco>
"""


@pytest.mark.parametrize(("angle", "bound"), [("radian", 0.5), ("degree", math.degrees(0.5))])
def test_a_servo_takes_the_range_of_its_joint_in_radians(angle: str, bound: float) -> None:
    file = SERVO_FILE.format(angle=angle, low=-bound, high=bound)
    model = load_model(file, motors={"knee": Servo(stiffness=20.0, damping=1.0, strength=5.0, armature=0.1)})
    [knee] = model.actuators
    assert knee.control_range == pytest.approx((-0.5, 0.5))
    assert (knee.gain, knee.bias, knee.force_range) == (20.0, (0.0, -20.0, -1.0), (-5.0, 5.0))
    assert model.armature[1] == 0.1


def test_a_servo_reaches_around_its_stance() -> None:
    file = SERVO_FILE.format(angle="radian", low=-1, high=1)
    model = load_model(file, motors={"*": Servo(stiffness=20.0, damping=1.0, stance=-0.9, reach=0.25)})
    assert [a.control_range for a in model.actuators] == [pytest.approx((-1.15, -0.65))] * 3
    with pytest.raises(ModelError, match=r"'slider' has no range .* set Servo\(stance=..., reach=...\)"):
        load_model(file, motors=Servo(stiffness=20.0, damping=1.0))


@pytest.mark.parametrize(
    "wrong", [{"stiffness": -1.0}, {"damping": math.nan}, {"stance": math.inf}, {"reach": -0.1}, {"strength": "much"}]
)
def test_servos_refuse_nonsense(wrong: dict) -> None:
    with pytest.raises(ModelError, match=rf"Servo.{next(iter(wrong))} must be a finite"):
        Servo(**{"stiffness": 1.0, "damping": 1.0, **wrong})
