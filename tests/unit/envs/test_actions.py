"""`JointTargets`: the same physics as `Servo` at loading, around the stance of the task's reset."""

from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ahac.envs import JointTargets, NoisyReset, RobotTask, make_task, uniform
from ahac.sim import InputError, Model, ModelError, Servo, load_model
from ahac.sim.compiler.program import evaluate
from ahac.sim.constants import with_constants
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs
from support.robots import ROVER, SERVO_ARM, gymnasium_file, mjcf

ROUNDING = 1e-12
"""Relative: the inertia behind a joint is recomputed from our own mass matrix instead of MuJoCo's."""

BIPED = mjcf(
    """
<geom name="floor" type="plane" size="1 1 1" conaffinity="1"/>
<body name="trunk" pos="0 0 0.5"><freejoint name="root"/><geom type="box" size="0.2 0.1 0.05" mass="3"/>
  <body name="left" pos="0 0.1 0">
    <joint name="left_hip" axis="0 1 0" range="-1 1" damping="0.1" armature="0.003"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.03" mass="0.8"/>
    <body name="left_shin" pos="0 0 -0.2"><joint name="left_knee" axis="0 1 0" actuatorfrcrange="-7 8"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="0.3"/></body></body>
  <body name="right" pos="0 -0.1 0">
    <joint name="right_hip" axis="0 1 0" range="-1 1" damping="0.1" armature="0.003"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.03" mass="0.8"/>
    <body name="right_shin" pos="0 0 -0.2"><joint name="right_knee" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="0.3"/></body></body></body>
""",
    rest="""
<actuator>
  <position name="a" joint="left_hip" kp="20" kv="0.5" ctrlrange="-2 2" forcerange="-9 6"/>
  <motor name="b" joint="left_knee" gear="-12" ctrlrange="-0.5 1"/>
  <position name="c" joint="right_hip" kp="20" kv="0.5" gear="-2" ctrlrange="-2 2"/>
  <motor name="d" joint="right_knee" gear="12"/>
</actuator>
<keyframe><key name="crouch" qpos="0 0 0.4 1 0 0 0 0.3 -0.8 0.9 -0.1" ctrl="0.1 0.2 0.3 0.4"/></keyframe>
""",
)
"""A free trunk on two legs: servos with and without a gear and a bound, motors with and without a control range."""

KP, KD, SCALE = {"*_hip": 30.0, "*_knee": 40.0}, {"*_hip": 1.0, "*_knee": 1.5}, {"*_hip": 0.4, "*_knee": 0.6}
ARMATURE, STRENGTH = {"*_hip": 0.005, "*_knee": 0.012}, {"*_hip": 23.0, "*_knee": 35.0}
CROUCH = NoisyReset(keyframe="crouch", pose={"left_knee": -0.7})
STANCE = {"left_hip": 0.3, "left_knee": -0.7, "right_hip": 0.9, "right_knee": -0.1}

GO1 = "asset_zoo/robots/unitree_go1/xmls/go1.xml"
GO1_STANCE = {"*_thigh_joint": 0.9, "*_calf_joint": -1.8}


def task(model: Model, actions: JointTargets | None, torso: str = "trunk", **options: Any) -> RobotTask:  # noqa: ANN401
    return RobotTask(model=model, torso=torso, actions=actions, **{"reset": CROUCH, **options})


def servos() -> dict[str, Servo]:
    return {
        name: Servo(
            stiffness=KP[kind], damping=KD[kind], reach=SCALE[kind], stance=stance, armature=ARMATURE[kind],
            strength=STRENGTH[kind],
        )
        for name, stance in STANCE.items()
        for kind in (f"*_{name.split('_')[1]}",)
    }  # fmt: skip


def plain(model: Model) -> dict[str, object]:
    """All fields that count, without the inertia behind each joint, which may differ in the last bits."""
    links = tuple(
        replace(link, joints=tuple(replace(joint, inertia=0.0) for joint in link.joints)) for link in model.links
    )
    return {f.name: getattr(replace(model, links=links), f.name) for f in fields(Model) if f.compare}


def assert_same_physics(ours: Model, wanted: Model) -> None:
    """The same numbers, and the same substep of an implicit step with actions in and out of range."""
    assert plain(ours) == plain(wanted)
    inertias = [[joint.inertia for joint in model.joints] for model in (ours, wanted)]
    assert np.allclose(*inertias, rtol=ROUNDING, atol=0.0)
    random = np.random.default_rng(0)
    q = np.array(wanted.rest_q) + 0.2 * random.standard_normal((4, wanted.nq))
    v, u = random.standard_normal((4, wanted.nv)), 1.5 * random.standard_normal((4, wanted.nu))
    given = {"q": q, "v": v, "u": u, "f": np.zeros((4, wanted.nv)), "h": np.full((4, 1), 0.005)}
    results = []
    for model in (ours, wanted):
        program = Programs(with_constants(model, True), ForceLaws(implicit=True), {}).step().substep
        results.append(evaluate(program, {name: given[name] for name in program.inputs})["v"])
    assert np.allclose(*results, rtol=1e-9, atol=1e-9)
    still = evaluate(program, {name: (given | {"u": 0.0 * u})[name] for name in program.inputs})["v"]
    assert not np.allclose(results[0], still, atol=1e-3), "the actions matter"


def test_targets_are_what_servos_at_loading_are() -> None:
    actions = JointTargets(scale=SCALE, kp=KP, kd=KD, strength=STRENGTH, armature=ARMATURE)
    ours = task(load_model(BIPED), actions).model
    assert_same_physics(ours, task(load_model(BIPED, motors=servos()), None).model)


@pytest.mark.skipif(find_spec("mjlab") is None, reason="the robot file comes with mjlab")
def test_targets_of_go1_are_what_servos_at_loading_are() -> None:
    package = find_spec("mjlab")
    assert package is not None
    assert package.origin is not None
    file = Path(package.origin).parent / GO1
    reset = NoisyReset(keyframe=None, pose=GO1_STANCE, height=0.278)
    options = {"stiffness": 20.0, "damping": 0.5, "reach": 0.5, "strength": 23.7, "armature": 0.005}
    loaded = load_model(
        file,
        motors={
            "*_hip_joint": Servo(**options),
            "*_thigh_joint": Servo(stance=0.9, **options),
            "*_calf_joint": Servo(stance=-1.8, **options),
        },
        ground=True,
    )
    actions = JointTargets(scale=0.5, kp=20.0, kd=0.5, strength=23.7, armature=0.005)
    ours = task(load_model(file, ground=True), actions, reset=reset).model
    assert ours.nu == 12
    assert_same_physics(ours, task(loaded, None, reset=reset).model)


def test_targets_of_a_bundled_robot_replace_its_motors() -> None:
    """The bound of a servo is what the motor it replaces could exert."""
    anymal = make_task("anymal")
    model = replace(anymal, actions=JointTargets(kp=80.0, kd=2.0)).model
    pose = NoisyReset().stance(model)
    for ours, motor in zip(model.actuators, anymal.model.actuators, strict=True):
        assert (ours.name, ours.force_range, ours.gain) == (motor.name, (-200.0, 200.0), 40.0)
        assert ours.bias == pytest.approx((80.0 * pose[ours.coordinates[0][0]], -80.0, -2.0))
    assert model.armature == anymal.model.armature


def test_the_models_own_servos_are_kept_without_gains() -> None:
    model = task(load_model(BIPED), JointTargets(joints="*_hip", scale=0.4)).model
    left, right = model.actuators
    assert (left.name, left.force_range, left.bias[1:]) == ("a", (-9.0, 6.0), (-20.0, -0.5))
    assert (left.gain, left.bias[0]) == pytest.approx((20.0 * 0.4, 20.0 * 0.3))
    # A servo behind a gear of −2 holds its joint with four times the gains, and the target is still the joint's.
    assert (right.gain, *right.bias) == pytest.approx((80.0 * 0.4, 80.0 * 0.9, -80.0, -2.0))
    assert (right.name, model.nu) == ("c", 2)


def test_bounds_come_from_the_actuators_that_are_replaced() -> None:
    loaded = load_model(BIPED)
    bounds = [a.force_range for a in task(loaded, JointTargets(kp=1.0, kd=0.0)).model.actuators]
    assert bounds == [(-9.0, 6.0), (-12.0, 6.0), None, None]
    given = task(loaded, JointTargets(kp=1.0, kd=0.0, strength=3.0)).model
    assert [a.force_range for a in given.actuators] == [(-3.0, 3.0)] * 4
    assert [joint.force_range for joint in given.joints if joint.name == "left_knee"] == [(-7.0, 8.0)]


def test_servos_keep_the_strength_of_the_actuators_that_they_replace() -> None:
    """A weaker motor has weaker gains and bounds; gains of the caller's own stay what they are."""
    loaded = load_model(BIPED)
    weak = loaded.parameters("actuator_strength:*").apply(loaded, [0.5, 0.25, 0.5, 1.0])
    given = task(weak, JointTargets(kp=1.0, kd=0.0, scale=1.0)).model
    assert [a.force_range for a in given.actuators] == [(-4.5, 3.0), (-3.0, 1.5), None, None]
    assert [a.gain for a in given.actuators] == [1.0] * 4
    left, right = task(weak, JointTargets(joints="*_hip", scale=1.0)).model.actuators
    assert (left.gain, left.bias[1:], left.force_range) == (10.0, (-10.0, -0.25), (-4.5, 3.0))
    assert (right.gain, right.bias[1:]) == (40.0, (-40.0, -1.0))


def test_keyframes_hold_their_own_poses() -> None:
    """A keyframe's control is the action whose targets are its pose; where they do not reach it, the nearest."""
    model = task(load_model(BIPED), JointTargets(kp=1.0, kd=0.0, scale=0.5)).model
    assert model.keyframes["crouch"].ctrl == pytest.approx((0.0, -0.2, 0.0, 0.0))
    upright = task(load_model(BIPED), JointTargets(kp=1.0, kd=0.0, scale=0.5), reset=NoisyReset(keyframe=None))
    assert upright.model.keyframes["crouch"].ctrl == pytest.approx((0.6, -1.0, 1.0, -0.2))


def test_a_reset_of_ones_own_leaves_the_rest_pose_as_the_stance() -> None:
    def reset(model: Model, draw: object) -> tuple[list[float], list[float]]:
        return [9.0] * model.nq, [0.0] * model.nv

    model = task(load_model(BIPED), JointTargets(kp=2.0, kd=0.0), reset=reset).model
    assert [actuator.bias[0] for actuator in model.actuators] == [0.0] * 4


def test_replace_starts_from_the_model_as_loaded() -> None:
    first = task(load_model(BIPED), JointTargets(kp=KP, kd=KD, scale=SCALE, armature=ARMATURE))
    assert replace(first, episode_steps=7).model == first.model, "armature is not added twice"
    moved = replace(first, reset=NoisyReset(keyframe=None))
    assert [a.bias[0] for a in moved.model.actuators] == [0.0] * 4
    own = replace(moved, actions=JointTargets(joints="*_hip"))
    assert [a.name for a in own.model.actuators] == ["a", "c"]
    assert replace(own, actions=None, model=load_model(ROVER), reset=NoisyReset(keyframe="low")).model.nu == 1
    loaded, upright = load_model(gymnasium_file("walker2d")), NoisyReset(keyframe=None)
    walker = task(loaded, JointTargets(kp=9.0, kd=1.0), "torso", reset=upright)
    assert [a.name for a in walker.model.actuators][:2] == ["thigh_joint", "leg_joint"], "the root is left alone"
    assert replace(walker, actions=None).model == task(loaded, None, "torso", reset=upright).model


def test_randomized_gains_stay_those_of_the_servos() -> None:
    gains = {"actuator_gain:*_knee": uniform(0.8, 1.2, "scale")}
    model = task(load_model(BIPED), JointTargets(kp=KP, kd=KD, scale=SCALE), randomize=gains).model
    hip, knee = model.actuators[:2]
    assert (hip.gain, hip.control_map) == (pytest.approx(12.0), None)
    assert (knee.gain, knee.bias, knee.control_map) == (40.0, (0.0, -40.0, -1.5), pytest.approx((0.6, -0.7)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kp": 3.0}, r"both gains, .* got kp=3.0, kd=None"),
        ({"scale": 0.0}, r"JointTargets.scale must be more than 0, got 0.0"),
        ({"kp": {"*": "stiff"}, "kd": 1.0}, r"JointTargets.kp\['\*'\] must be a finite number"),
        ({"kp": 1.0, "kd": -1.0}, r"JointTargets.kd must be a finite number of at least 0, got -1"),
        ({"kp": 1.0, "kd": 1.0, "joints": ["*_hip", "tail"]}, r"joints has 'tail', which matches none of: left_hip"),
        ({"kp": {"*_hip": 1.0}, "kd": 1.0}, r"kp must match joint 'left_knee' once, .* match it are: none"),
        ({"kp": {"*": 1.0, "*_hip": 2.0}, "kd": 1.0}, r"kp must match joint 'left_hip' once, .*: '\*', '\*_hip'"),
        ({"kp": 1.0, "kd": 1.0, "armature": {"tail": 1.0}}, r"armature has 'tail', which matches none of"),
        ({}, r"one position servo on joint 'left_knee' of .*: 'b'; set kp and kd"),
    ],
)
def test_targets_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        task(load_model(BIPED), JointTargets(**options))


def test_actions_must_be_an_action_space() -> None:
    actions: Any = 0.5
    with pytest.raises(InputError, match="actions must be an action space such as JointTargets"):
        task(load_model(BIPED), actions)


def test_armature_of_a_robot_with_loops_must_be_there_at_loading() -> None:
    loop = SERVO_ARM.replace("<actuator>", '<equality><joint joint1="elbow" joint2="shoulder"/></equality><actuator>')
    with pytest.raises(ModelError, match=r"equality constraints depend on it; set armature in the file, or load with"):
        task(load_model(loop), JointTargets(kp=1.0, kd=0.0, armature=0.1), "upper", reset=NoisyReset(keyframe=None))
